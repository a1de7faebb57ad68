"""A weather desk that answers by plain rules: it looks weather up, remembers a city, and asks before it sends mail.

It stands in for a model, so that the example needs no key and gives the same answer twice; everything around it (tool
calls, memory, approvals, structured answers, files) is what a real agent would show.
"""

from __future__ import annotations

import re
import struct
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Literal

Json = Any
Style = Literal["concise", "verbose"]
Status = Literal["completed", "waiting"]

MAX_SESSIONS = 1_000

# Per city: today and tomorrow as (degrees Celsius, sky, chance of rain in percent).
FORECASTS: dict[str, dict[str, tuple[int, str, int]]] = {
    "Brooklyn": {"today": (21, "sunny", 5), "tomorrow": (18, "rain", 80)},
    "Lagos": {"today": (31, "thunderstorms", 90), "tomorrow": (30, "cloudy", 40)},
    "Oslo": {"today": (4, "snow", 70), "tomorrow": (6, "cloudy", 20)},
    "Reykjavik": {"today": (-2, "windy", 30), "tomorrow": (1, "sleet", 85)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that came with a turn."""

    filename: str
    mime_type: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One turn's input: text, files, and the answers (request id -> option id) to what the desk asked."""

    text: str
    files: tuple[Upload, ...] = ()
    responses: dict[str, str] = field(default_factory=dict)
    output_schema: dict[str, Json] | None = None
    style: Style = "concise"


@dataclass(slots=True, kw_only=True)
class Answer:
    """What the desk did in one turn, in order, and how it ended."""

    steps: list[dict[str, Json]] = field(default_factory=list)
    status: Status = "completed"
    approvals: list[dict[str, Json]] = field(default_factory=list)
    data: Json = None
    input_words: int = 0
    output_words: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMail:
    """A mail that waits for a human's yes."""

    approval_id: str
    call_id: str
    to: str


@dataclass(slots=True)
class Session:
    """One conversation: what was said (for counting), the city it is about, and an open question."""

    id: str
    city: str | None = None
    words_so_far: int = 0
    calls: int = 0
    pending: PendingMail | None = None

    def next_call_id(self) -> str:
        self.calls += 1
        return f"call_{self.calls}"


class UnknownApproval(Exception):
    """An answer to a question that this session does not have open, or with an option it does not offer."""


class Desk:
    """All conversations. The oldest is forgotten when there are more than MAX_SESSIONS."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._made = 0

    def session(self, session_id: str | None) -> Session:
        """The conversation of that id, or a new one. Raises KeyError for an id that is not known."""
        if session_id is not None:
            return self._sessions[session_id]
        self._made += 1
        session = Session(f"s-{self._made:04}")
        self._sessions[session.id] = session
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def take_turn(self, session: Session, request: Request) -> Answer:
        """Answer one turn. Raises UnknownApproval where `responses` fit no open question."""
        answer = Answer()
        if request.responses:
            _settle_approval(session, request.responses, answer)
        else:
            _lapse_approval(session, answer)
            _work(session, request, answer)
        _count_words(session, request, answer)
        return answer


def _work(session: Session, request: Request, answer: Answer) -> None:
    if request.files:
        for upload in request.files:
            _describe(session, upload, answer)
        return
    text = request.text
    if home := _stated_home(text):
        session.city = home
        _say(answer, f"Noted: your city is {home}.")
        return
    if address := _mail_address(text):
        _prepare_mail(session, text, address, answer)
    elif _asks_for_weather(text):
        _tell_weather(session, request, answer)
    else:
        _say(answer, "I can look up the weather, mail a forecast, and read a picture's size. What shall it be?")


# What the user wants -----------------------------------------------------------------------------------------------


def _stated_home(text: str) -> str | None:
    match = re.search(r"\b(?i:my city is|i live in)\s+([A-Z][\w-]*(?:\s[A-Z][\w-]*)*)", text)
    return match[1] if match else None


def _mail_address(text: str) -> str | None:
    match = re.search(r"\b(?:(?:e-?)?mail|send)\b.*?([\w.+-]+@[\w-]+(?:\.[\w-]+)+)", text, re.I)
    return match[1] if match else None


def _asks_for_weather(text: str) -> bool:
    words = r"\b(weather|forecast|temperature|rain|snow|wind|warm|cold|umbrella|today|tomorrow)\b"
    return re.search(words, text, re.I) is not None


def _named_city(text: str) -> str | None:
    match = re.search(r"\b(?:in|for|of)\s+([A-Z][\w-]*(?:\s[A-Z][\w-]*)*)", text)
    return match[1] if match else None


def _named_day(text: str) -> str:
    return "tomorrow" if re.search(r"\btomorrow\b", text, re.I) else "today"


# What the desk does ------------------------------------------------------------------------------------------------


def _look_up(session: Session, text: str, answer: Answer) -> dict[str, Json] | None:
    """Calls `get_weather`; None (and a sentence that says why) where there is no forecast."""
    city = _named_city(text) or session.city
    if city is None:
        _say(answer, "Which city?")
        return None
    session.city = city
    day = _named_day(text)
    call_id = _call(session, answer, "get_weather", {"city": city, "day": day})
    if city not in FORECASTS:
        _result(answer, call_id, "error", {"error": f"no weather station in {city}"})
        _say(answer, f"There is no weather station in {city}, so I have no forecast for it.")
        return None
    celsius, sky, rain = FORECASTS[city][day]
    report: dict[str, Json] = {"city": city, "day": day, "celsius": celsius, "sky": sky, "rainPercent": rain}
    _result(answer, call_id, "ok", report)
    return report


def _tell_weather(session: Session, request: Request, answer: Answer) -> None:
    report = _look_up(session, request.text, answer)
    if report is None:
        return
    if request.output_schema is not None:
        wanted = _properties(request.output_schema)
        answer.data = {name: value for name, value in report.items() if name in wanted}
    _say(answer, _sentence(report, request.style))


def _properties(schema: dict[str, Json]) -> dict[str, Json]:
    target = schema.get("$ref", "")
    if target.startswith("#/$defs/"):
        schema = schema["$defs"][target.removeprefix("#/$defs/")]
    properties: dict[str, Json] = schema.get("properties", {})
    return properties


def _sentence(report: dict[str, Json], style: Style) -> str:
    short = f"{report['city']}, {report['day']}: {report['celsius']} °C, {report['sky']}."
    if style == "concise":
        return short
    likely = report["rainPercent"] >= 50
    advice = "do take an umbrella with you" if likely else "you can leave the umbrella at home"
    return f"Thanks for asking! {short} The chance of rain is {report['rainPercent']} percent, so {advice}."


def _prepare_mail(session: Session, text: str, address: str, answer: Answer) -> None:
    report = _look_up(session, text, answer)
    if report is None:
        return
    mail = {"to": address, "body": _sentence(report, "concise")}
    call_id = _call(session, answer, "send_mail", mail)
    session.pending = PendingMail(approval_id=f"approve-{call_id}", call_id=call_id, to=address)
    options = [{"id": "approve", "label": "Send it"}, {"id": "reject", "label": "Do not send it"}]
    question = {
        "id": session.pending.approval_id,
        "tool": "send_mail",
        "input": mail,
        "question": f"Send this mail to {address}?",
        "options": options,
    }
    answer.approvals.append(question)
    answer.status = "waiting"


def _settle_approval(session: Session, responses: dict[str, str], answer: Answer) -> None:
    pending = session.pending
    if pending is None or set(responses) != {pending.approval_id}:
        raise UnknownApproval(f"this session has no open question {', '.join(sorted(responses))}")
    choice = responses[pending.approval_id]
    if choice not in ("approve", "reject"):
        raise UnknownApproval(f"{choice!r} is no option of {pending.approval_id}; it has approve, reject")
    session.pending = None
    if choice == "approve":
        _result(answer, pending.call_id, "ok", {"accepted": [pending.to]})
        _say(answer, f"The mail to {pending.to} is sent.")
    else:
        _result(answer, pending.call_id, "declined", {"reason": "a human declined"})
        _say(answer, f"As you asked, I did not send the mail to {pending.to}.")


def _lapse_approval(session: Session, answer: Answer) -> None:
    if session.pending is not None:
        _result(answer, session.pending.call_id, "declined", {"reason": "the question was left open"})
        session.pending = None


def _describe(session: Session, upload: Upload, answer: Answer) -> None:
    call_id = _call(session, answer, "read_picture", {"filename": upload.filename})
    size = png_size(upload.data)
    if size is None:
        _result(answer, call_id, "error", {"error": f"not a PNG picture ({upload.mime_type})"})
        _say(answer, f"I can read PNG pictures only; {upload.filename} is none.")
        return
    width, height = size
    _result(answer, call_id, "ok", {"format": "png", "width": width, "height": height})
    _say(answer, f"{upload.filename} is a PNG picture of {width} x {height} pixels.")


def png_size(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels from a PNG's header; None for anything else."""
    if len(data) < 24 or not data.startswith(b"\x89PNG\r\n\x1a\n") or data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack(">II", data[16:24])
    return width, height


# The record of a turn ----------------------------------------------------------------------------------------------


def _call(session: Session, answer: Answer, tool: str, arguments: dict[str, Json]) -> str:
    call_id = session.next_call_id()
    answer.steps.append({"type": "call", "id": call_id, "tool": tool, "input": arguments})
    return call_id


def _result(answer: Answer, call_id: str, status: str, output: Json) -> None:
    answer.steps.append({"type": "result", "id": call_id, "status": status, "output": output})


def _say(answer: Answer, text: str) -> None:
    answer.steps.append({"type": "reply", "text": text})


def _count_words(session: Session, request: Request, answer: Answer) -> None:
    """The desk's own measure: words instead of tokens. The whole conversation is read again at every turn."""
    said = sum(len(step["text"].split()) for step in answer.steps if step["type"] == "reply")
    answer.input_words = session.words_so_far + len(request.text.split())
    answer.output_words = said
    session.words_so_far = answer.input_words + said
