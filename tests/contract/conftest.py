"""What the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.cli_rows import PLACE, PLACES


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest) -> Iterator[None]:
    """Try the rows of a command-line agent on this machine, and in a real container."""
    token = PLACE.set(PLACES[request.param])
    yield
    PLACE.reset(token)
