"""A conversation line: driving it, reading it, asserting on it up to now."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from niceeval._base.callsite import CallSite, call_site
from niceeval._base.errors import AuthorError
from niceeval._drive.answers import answers_to, pick_request, require_name
from niceeval._drive.driver import Driver
from niceeval._drive.files import FileArgument, input_files
from niceeval._drive.judge_view import JudgeView, seen_material
from niceeval._drive.receiver import Receiver
from niceeval._drive.sending import Sending
from niceeval._drive.structured import JsonSchema, OutputForm, output_form
from niceeval._drive.turn import TurnHandle, assistant_text
from niceeval._evidence.facts import ToolCall
from niceeval._evidence.scope import Scope, TurnRecord, session_scope
from niceeval._judge.availability import channel_gap
from niceeval._judge.collector import AssertionHandle
from niceeval._judge.evaluation import Evaluation, refs_of
from niceeval._judge.unset import UNSET
from niceeval._judging.conversation import conversation_material
from niceeval._model.agent import AgentSession
from niceeval._model.events import InputRequest, InputRequested, StreamEvent
from niceeval._model.json_types import JsonValue
from niceeval._model.turn_input import InputResponse, TurnInput
from niceeval._model.usage import Usage, add_usage

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")
_TURN_NAMES = frozenset(name for name in dir(TurnHandle) if not name.startswith("_"))


class Line(Receiver):
    """What `t` and every session share: driving one conversation line. `number` counts lines from 0."""

    __slots__ = ("_driver", "_number", "_session")

    def __init__(self, driver: Driver, number: int) -> None:
        self._driver = driver
        self._number = number
        self._session = AgentSession()

    @property
    @abstractmethod
    def _seen(self) -> Sequence[TurnRecord]:
        """The turns that reading covers."""

    @property
    def _turns(self) -> list[TurnRecord]:
        return self._driver.log.sessions[self._number]

    def _fault(self, error: AuthorError) -> BaseException:
        return self._driver.author_fault(error)

    # Driving ----------------------------------------------------------------------------------------------------

    @overload
    def send(self, text: str, files: Sequence[FileArgument] = ..., output: None = ...) -> Sending[TurnHandle[None]]: ...

    @overload
    def send(
        self, text: str, files: Sequence[FileArgument] = ..., *, output: JsonSchema
    ) -> Sending[TurnHandle[JsonValue]]: ...

    @overload
    def send(
        self, text: str, files: Sequence[FileArgument] = ..., *, output: TypeForm[T]
    ) -> Sending[TurnHandle[T]]: ...

    def send(self, text: str, files: Sequence[FileArgument] = (), output: Any = None) -> Sending[TurnHandle[Any]]:
        """One turn: `await t.send("...")`. Pending requests are dropped.

        `files`: paths relative to the eval file, or InputFiles. `output`: any type form or JsonSchema; what comes back
        is validated against it, and `turn.data` has that type.
        """
        return self._send("send", text, files, output)

    @overload
    def send_file(self, path: FileArgument, text: str = ..., output: None = ...) -> Sending[TurnHandle[None]]: ...

    @overload
    def send_file(
        self, path: FileArgument, text: str = ..., *, output: JsonSchema
    ) -> Sending[TurnHandle[JsonValue]]: ...

    @overload
    def send_file(self, path: FileArgument, text: str = ..., *, output: TypeForm[T]) -> Sending[TurnHandle[T]]: ...

    def send_file(self, path: FileArgument, text: str = "", output: Any = None) -> Sending[TurnHandle[Any]]:
        """One turn with one file; `text` is its caption."""
        return self._send("send_file", text, [path], output)

    def require_input_request(
        self,
        *,
        id: str | None = None,
        prompt: Any = UNSET,
        display: Any = UNSET,
        action: str | None = None,
        input: Any = UNSET,
        option_ids: Sequence[str] | None = None,
    ) -> InputRequest:
        """The one pending request that matches; every condition given must hold.

        `id` and `action` are compared, `prompt` and `display` are contained (or a pattern is searched), `input` uses
        the matching language, `option_ids` must all be offered. None or several: a failed gate that stops the eval
        (`unavailable`, and stops it, where `events` are not complete).
        """
        site = call_site()
        pending = self._pending()
        try:
            picked = pick_request(
                [request for _, request in pending],
                id=id,
                prompt=prompt,
                display=display,
                action=action,
                input=input,
                option_ids=option_ids,
            )
        except AuthorError as error:
            raise self._driver.author_fault(error, site) from None
        gap = None
        if picked.request is None:
            gap = channel_gap(self._turns[-1].coverage, "events") if self._turns else None
        self._driver.record(
            "require_input_request",
            site,
            evaluation=Evaluation(
                score=0.0 if picked.request is None else 1.0,
                expected=picked.expected,
                received=picked.received,
                refs=refs_of((index, None) for index, _ in pending),
                reason=gap,
            ),
        )
        if picked.request is None:
            raise self._driver.stop("require_input_request")
        return picked.request

    def respond(self, *answers: InputResponse | str, text: str | None = None) -> Sending[TurnHandle[None]]:
        """Answer every pending request exactly once; returns the next turn.

        `request.choose("approve")`, `request.reply("...")`; or, where one is pending, one of its option ids as a bare
        string (any text if it has no options), or `text="..."` for free text.
        """
        site = call_site()
        try:
            responses = answers_to([request for _, request in self._pending()], answers, text)
        except AuthorError as error:
            raise self._driver.author_fault(error, site) from None
        return self._answer("respond", responses, site)

    def respond_all(self, option_id: str) -> Sending[TurnHandle[None]]:
        """The same choice for every pending request; returns the next turn."""
        site = call_site()
        try:
            pending = [request for _, request in self._pending()]
            responses = answers_to(pending, [request.choose(option_id) for request in pending], None)
        except AuthorError as error:
            raise self._driver.author_fault(error, site) from None
        return self._answer("respond_all", responses, site)

    def _send(self, call: str, text: object, files: Sequence[FileArgument], output: object) -> Sending[TurnHandle[Any]]:
        site = call_site()
        try:
            said = require_name(call, "text", text, empty=True)
            form = None if output is None else output_form(output)
            attached = input_files(files, self._driver.setting.folder)
        except AuthorError as error:
            raise self._driver.author_fault(error, site) from None
        schema = None if form is None else form.schema
        return self._drive(call, TurnInput(text=said, files=attached, output_schema=schema), site, form)

    def _answer(self, call: str, responses: tuple[InputResponse, ...], site: CallSite) -> Sending[TurnHandle[None]]:
        text = "\n".join(response.option_id or response.text or "" for response in responses)
        return self._drive(call, TurnInput(text=text, responses=responses), site, None)

    def _drive(self, call: str, input: TurnInput, site: CallSite, form: OutputForm | None) -> Sending[TurnHandle[Any]]:
        async def run() -> TurnHandle[Any]:
            record, data, missing = await self._driver.send(self._session, self._number, input, site, form)
            return TurnHandle(self._driver, record, data, missing)

        make: Callable[[], Coroutine[Any, Any, TurnHandle[Any]]] = run
        return self._driver.sending(call, site, make, _TURN_NAMES)

    def _pending(self) -> list[tuple[int, InputRequest]]:
        turns = self._turns
        if not turns or turns[-1].lost or turns[-1].status != "waiting":
            return []
        return [(index, event.request) for index, event in turns[-1].events if isinstance(event, InputRequested)]

    # Reading ----------------------------------------------------------------------------------------------------

    @property
    def reply(self) -> str:
        """The last assistant message of this conversation line; empty where there is none."""
        self._driver.require_own()
        for turn in reversed(self._turns):
            text = assistant_text(turn)
            if text:
                return text
        return ""

    @property
    def session_id(self) -> str | None:
        """The id that the adapter captured for this conversation line, if any."""
        self._driver.require_own()
        return self._session.id

    @property
    def events(self) -> list[StreamEvent]:
        """The events so far, in the order they happened."""
        self._driver.require_own()
        indexed = [event for turn in self._seen for event in turn.events]
        return [event for _, event in sorted(indexed, key=lambda pair: pair[0])]

    @property
    def usage(self) -> Usage | None:
        """The sum of what the turns so far reported; None where none did."""
        self._driver.require_own()
        return add_usage(turn.usage for turn in self._seen if turn.usage is not None)

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls so far, with what became of them."""
        self._driver.require_own()
        sessions = {turn.session for turn in self._seen}
        calls = [call for session in sessions for call in self._driver.log.facts_of(session).tool_calls]
        return sorted(calls, key=lambda call: call.event)


class Session(Line):
    """An independent conversation line, from `t.new_session()`. Its events count for `t.*` as well."""

    __slots__ = ()

    @property
    def judge(self) -> JudgeView:
        """Questions about this conversation line up to now, that a model decides at the end."""
        self._driver.require_own()
        turns = list(self._turns)
        scope = session_scope(turns, self._driver.log.facts_of(self._number) if turns else None)
        return JudgeView(self._driver, lambda: seen_material(scope, conversation_material))

    @property
    def _seen(self) -> Sequence[TurnRecord]:
        return self._turns

    def _record(self, name: str, evaluate: Callable[[Scope], Evaluation]) -> AssertionHandle:
        site = call_site()
        turns = list(self._turns)
        scope = session_scope(turns, self._driver.log.facts_of(self._number) if turns else None)
        return self._driver.record(name, site, evaluation=self._driver.evaluate(evaluate, scope, site))

    def __repr__(self) -> str:
        return f"<session {self._number}, {len(self._turns)} turns>"
