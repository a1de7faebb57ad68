"""Probes: what an adapter author says to make their own agent show a behaviour."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from niceeval._base.errors import AuthorError
from niceeval._drive.structured import output_form
from niceeval._model.events import InputRequest
from niceeval._model.matcher import Check, as_matcher
from niceeval._model.turn_input import InputFile, InputResponse

# A valid picture of 12 x 12 pixels of noise: small, and its base64 text is nothing that an agent would say by itself.
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAwAAAAMCAAAAABzHgM7AAAAp0lEQVR42gGcAGP/AIK3Du5/GlA5vvB+wgA0fwZu0I9dx1EkR+MAQEMAAmtu"
    "VFWUoGVoAF1kxJgLuNRUSochqQCaAa0hnrWc9qFe9vEAWh2DC7fOCda7wATnABdcZDx97LC1gOw3vACXEt0uaq65S66NL58AopxaKEye91IY"
    "Kc8QAHmwgOnXShwQ/KtqQgBD0zZW3r5MHteWSOgAVuj5ovWMlfDOSznB495H0o70WPoAAAAASUVORK5CYII="
)

_MEMORY = ('"My city is Oslo"', '"Which city is mine?"', 'includes("Oslo")')
_OUTPUT = ('"What is the weather?"', "Weather")


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A text for which the agent stops and asks, and the answers that mean yes and no.

    `approve` and `reject` are option ids; where a request has no options they are sent as text.
    """

    text: str
    approve: str = "approve"
    reject: str = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Texts that trigger behaviours of one agent. What is left out is reported as not checked.

    hello          any text that ends in a plain answer
    tool           makes it call a tool that succeeds
    failing_tool   makes it call a tool that fails
    memory         (a text that tells it something, a text that asks for it, a matcher for the answer)
    approval       makes it stop and ask: a text, or an Approval where the options are not `approve` and `reject`
    output         (a text, the type or JsonSchema of the structured answer)
    slow           a turn that takes a while, to be cancelled; `hello` where it is None
    file           goes with one turn; a small PNG picture where it is None

    Raises AuthorError (`bad-argument`, `bad-matcher`, `bad-output-type`).
    """

    hello: str = "Hello! Please answer in one short sentence."
    tool: str | None = None
    failing_tool: str | None = None
    memory: tuple[str, str, Check[str]] | None = None
    approval: str | Approval | None = None
    output: tuple[str, Any] | None = None
    slow: str | None = None
    file: InputFile | None = None

    def __post_init__(self) -> None:
        for name in ("hello", "tool", "failing_tool", "slow"):
            text = getattr(self, name)
            if not (text is None and name != "hello"):
                _require_text(name, text)
        if self.memory is not None:
            tell, ask, recalls = _parts("memory", self.memory, _MEMORY)
            _require_text("memory[0]", tell)
            _require_text("memory[1]", ask)
            as_matcher(recalls)
        if self.output is not None:
            text, form = _parts("output", self.output, _OUTPUT)
            _require_text("output[0]", text)
            output_form(form)
        approval = self.approving()
        if approval is not None:
            _require_text("approval", approval.text)

    def approving(self) -> Approval | None:
        """The approval probe in its long form."""
        return Approval(text=self.approval) if isinstance(self.approval, str) else self.approval

    def at_once(self, count: int) -> list[str]:
        """As many texts for sends at the same time, no two alike in what they ask for, as far as probes allow."""
        marked = [f"{self.hello} Please end your answer with the word {marker(number)}." for number in range(count)]
        if self.tool is None:
            return marked
        return [self.tool if number % 2 else text for number, text in enumerate(marked)]

    def attached(self) -> InputFile:
        """The file that goes with a turn."""
        return self.file or InputFile(filename="niceeval-probe.png", mime_type="image/png", data=PICTURE)


def marker(number: int) -> str:
    """The word that the text with this number asks for."""
    return f"probe-{number:03d}"


def answer_to(request: InputRequest, answer: str) -> InputResponse:
    """The answer as an option where the request has any. Raises AuthorError (`unknown-option`)."""
    return request.choose(answer) if request.options else request.reply(answer)


def _parts(name: str, given: object, example: tuple[str, ...]) -> tuple[Any, ...]:
    if not isinstance(given, tuple) or len(given) != len(example):
        fix = f"give {name}=({', '.join(example)})"
        raise AuthorError("bad-argument", call="Probes", argument=name, problem=f"is {given!r:.80}", fix=fix)
    return given


def _require_text(name: str, given: object) -> None:
    if not isinstance(given, str) or not given.strip():
        raise AuthorError("bad-argument", call="Probes", argument=name, problem=f"is {given!r:.80}", fix="give text")
