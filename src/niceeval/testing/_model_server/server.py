"""`model_server`: a scripted model behind a real HTTP server."""

from __future__ import annotations

import asyncio
import ipaddress
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from niceeval._base.errors import AuthorError
from niceeval.testing._model_server.answering import Answering
from niceeval.testing._model_server.http_handler import LoopbackServer
from niceeval.testing._model_server.model_request import ProtocolName
from niceeval.testing._model_server.recorded import RecordedRequest, Recorder
from niceeval.testing._model_server.scenario import Scenario
from niceeval.testing._model_server.script import MAX_ANSWERS, Script
from niceeval.testing._model_server.side_requests import SIDE_REQUESTS, SideRequest
from niceeval.testing._model_server.steps import StepLike, argument_error, is_whole

POLL_INTERVAL = 0.05
"""Seconds in which the accepting thread sees that it should stop."""

DEFAULT_WAIT = 30.0
"""Seconds that `wait_for` waits."""


class ModelServer:
    """A scripted model. It listens between `start` and `stop`, or inside `with` and `async with`."""

    def __init__(self, answering: Answering, host: str, port: int) -> None:
        self._answering = answering
        self._host = host
        self._port = port
        self._recorder = Recorder()
        self._http: LoopbackServer | None = None
        self._thread: threading.Thread | None = None

    # Life --------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Listen. Raises AuthorError (`model-server-address`) where the address cannot be had."""
        if self._http is not None:
            return self
        try:
            self._http = LoopbackServer((self._host, self._port), self._answering, self._recorder)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise AuthorError("model-server-address", host=self._host, port=self._port, reason=reason) from None
        self._port = self._http.server_port
        serve = self._http.serve_forever
        self._thread = threading.Thread(target=serve, args=(POLL_INTERVAL,), name="niceeval-model-server", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Hang up on every client, and free the port. What was recorded stays."""
        http, thread = self._http, self._thread
        self._http = self._thread = None
        if http is None or thread is None:
            return
        http.stopping.set()
        http.shutdown()
        http.hang_up()
        http.server_close()
        thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    # Where -------------------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port; before `start`, the one that was asked for."""
        return self._port

    @property
    def url(self) -> str:
        """The base for Anthropic and Gemini clients: `http://host:port`."""
        return self.url_for("127.0.0.1" if self._host in ("0.0.0.0", "") else self._host)

    @property
    def openai_url(self) -> str:
        """The base for OpenAI clients: `http://host:port/v1`."""
        return f"{self.url}/v1"

    def url_for(self, host: str) -> str:
        """The base as another place names this machine (`host.docker.internal`, a gateway address)."""
        return f"http://[{host}]:{self._port}" if ":" in host else f"http://{host}:{self._port}"

    # What came ---------------------------------------------------------------------------------------------------

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """Everything that was asked, in order; the latest 2,000 requests, and 64 MiB of bodies."""
        return self._recorder.requests()

    @property
    def dropped(self) -> int:
        """How many requests came before those that are kept."""
        return self._recorder.dropped

    @property
    def unscripted(self) -> tuple[RecordedRequest, ...]:
        """What no script answers; `problem` says why. A test ends with `assert not server.unscripted`."""
        return tuple(request for request in self.requests if request.outcome == "unscripted")

    def calls(
        self, scenario: str | None = None, *, protocol: ProtocolName | None = None, path: str | None = None
    ) -> tuple[RecordedRequest, ...]:
        """The requests to the model, of one scenario (or side request), protocol, or path that ends so."""
        return tuple(
            request
            for request in self.requests
            if request.protocol is not None
            and scenario in (None, request.scenario)
            and protocol in (None, request.protocol)
            and (path is None or request.path.partition("?")[0].endswith(path))
        )

    def wait_for(self, condition: Callable[[Sequence[RecordedRequest]], object], timeout: float = DEFAULT_WAIT) -> bool:
        """Wait until `condition` holds for the recorded requests; whether it does within `timeout` seconds."""
        changed = self._recorder.changed
        with changed:
            return bool(changed.wait_for(lambda: condition(self._recorder.requests()), timeout))


def model_server(
    *scenarios: Scenario | StepLike,
    host: str = "127.0.0.1",
    port: int = 0,
    models: Sequence[str] = ("scripted-model",),
    side_requests: Sequence[SideRequest] = SIDE_REQUESTS,
    max_answers: int = MAX_ANSWERS,
) -> ModelServer:
    """A model that answers from a script, over HTTP, in the Anthropic, OpenAI and Gemini protocols.

    scenarios       scenarios, selected by `SCENARIO:<name>` in the latest text of the user; or steps alone, which are
                    one scenario that needs no marker
    host, port      where to listen: loopback, or the address of a bridge that containers reach; 0 is a free port
    models          what `/v1/models` lists; any model can be asked
    side_requests   what is answered beside the script; `()` for nothing
    max_answers     answers in one turn of a conversation; more is a loop, and gets a 400

    Raises AuthorError (`bad-argument`).
    """
    _check_address(host, port)
    if not is_whole(max_answers, 1):
        raise argument_error("model_server", "max_answers", f"is {max_answers!r}", "give a whole number from 1")
    if isinstance(models, str) or not all(isinstance(name, str) for name in models):
        raise argument_error("model_server", "models", "is no list of names", 'models=["my-model"]')
    script = Script(_scenarios(scenarios), side_requests, max_answers)
    return ModelServer(Answering(script, models), host, port)


def _scenarios(given: Sequence[Scenario | StepLike]) -> list[Scenario]:
    named = [item for item in given if isinstance(item, Scenario)]
    if named and len(named) != len(given):
        raise argument_error("model_server", "scenarios", "mixes scenarios and steps", "name the steps: Scenario(...)")
    if not named:
        if not given:
            raise argument_error("model_server", "scenarios", "is nothing", 'model_server(say("Hello!"))')
        return [Scenario("script", [item for item in given if not isinstance(item, Scenario)])]
    names = [scenario.name for scenario in named]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise argument_error("model_server", "scenarios", f"has {twice!r} twice", "give each scenario its own name")
    return named


def _check_address(host: object, port: object) -> None:
    try:
        ipaddress.ip_address(str(host) if isinstance(host, str) else "")
    except ValueError:
        if host != "localhost":
            raise argument_error("model_server", "host", f"is {host!r}", 'host="127.0.0.1"') from None
    if not is_whole(port, 0, 65535):
        raise argument_error("model_server", "port", f"is {port!r}", "port=0 for a free one")
