"""Packages that only some users need: asked for where they are used, with the words that install them."""

from __future__ import annotations

import importlib.util

from niceeval._base.errors import AdapterError


def require_extra(package: str, *, extra: str, wanted_by: str) -> None:
    """Raises AdapterError `extra-missing`, which names the extra, where a package cannot be imported."""
    if importlib.util.find_spec(package) is None:
        raise AdapterError("extra-missing", wanted_by=wanted_by, package=package, extra=extra)
