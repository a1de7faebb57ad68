"""What evals print while many of them run: kept apart from pytest's own lines, since it is no single item's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

MAX_CHARS = 20_000
"""Characters that are kept, the last ones."""


class EvalOutput:
    """Both streams of the run's steps together; `text` is empty under `-s`, where they are not captured."""

    def __init__(self, config: pytest.Config) -> None:
        self._manager = config.pluginmanager.getplugin("capturemanager")
        self.text = ""

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep what is written within."""
        manager = self._manager
        if manager is None or not manager.is_globally_capturing():
            yield
            return
        manager.resume_global_capture()
        try:
            yield
        finally:
            manager.suspend_global_capture(in_=False)
            out, err = manager.read_global_capture()
            self.text = (self.text + out + err)[-MAX_CHARS:]

    def stop(self) -> None:
        """Give the real streams back for good."""
        if self._manager is not None:
            self._manager.suspend_global_capture(in_=True)
