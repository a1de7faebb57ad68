"""What people read: one flat catalogue per language, keyed by error code, with the same codes and fields in each.

`NICEEVAL_LANG=zh` selects Chinese; nothing else does. Codes, commands, ids and the words that occur in JSON are never
translated.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from niceeval._base.catalogue.en import ERRORS as _EN
from niceeval._base.catalogue.zh import ERRORS as _ZH

__all__ = ["CATALOGUES", "current_language", "render"]

CATALOGUES: Mapping[str, Mapping[str, tuple[str, str]]] = {"en": _EN, "zh": _ZH}


def current_language() -> str:
    """`zh` when `NICEEVAL_LANG` asks for it, else `en`."""
    return "zh" if os.environ.get("NICEEVAL_LANG", "").lower().startswith("zh") else "en"


def render(code: str, part: Literal["message", "next"], fields: Mapping[str, object], language: str = "en") -> str:
    """The sentence (`message`) or the hint (`next`) of `code`, with its fields filled in.

    Raises KeyError when the code is in no catalogue or a field is missing: both are faults of ours, and a test holds
    every raised code to the catalogues.
    """
    message, hint = CATALOGUES[language][code]
    template = message if part == "message" else hint
    return template.format_map(fields) if fields else template
