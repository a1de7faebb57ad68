"""What backends of cloud services share: the end of a command, and a sandbox's time."""

from __future__ import annotations

import asyncio
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval.sandbox import SandboxError, SandboxGoneError
from niceeval.sandbox.services import Ending, Lease, gone_because, made_or_removed


def _fed(said: bytes, sizes: list[int], *, code: int | None) -> tuple[Ending, bytes]:
    out = bytearray()
    ending = Ending(["true"], out.extend)
    token = ending.argv[4].encode()
    # What looks like the beginning of the token is output, wherever it stands.
    data = said.replace(b"T", token[: len(token) // 2]) + (b"" if code is None else b"%s %d." % (token, code))
    expected = said.replace(b"T", token[: len(token) // 2])
    for size in sizes:
        ending.feed(data[:size])
        data = data[size:]
    ending.feed(data)
    ending.finish()
    assert bytes(out) == expected
    return ending, bytes(out)


@given(st.binary(max_size=60).map(lambda data: data + b"T"), st.lists(st.integers(1, 9)), st.integers(0, 255))
def test_an_end_is_seen_in_whatever_pieces_it_comes(said: bytes, sizes: list[int], code: int) -> None:
    """Error output arrives whole and unchanged, and the exit code behind it is known."""
    assert _fed(said, sizes, code=code)[0].code == code


@given(st.binary(max_size=60).map(lambda data: data + b"T"), st.lists(st.integers(1, 9)))
def test_output_without_an_end_arrives_whole(said: bytes, sizes: list[int]) -> None:
    """A stream that is cut loses nothing, and no code is made up."""
    assert _fed(said, sizes, code=None)[0].code is None


@pytest.mark.parametrize(
    ("script", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("echo out; echo err >&2", 0)]
)
def test_the_wrapper_says_how_a_command_ended(script: str, code: int) -> None:
    """A real shell: nothing is added to the output, also where a signal ended the command."""
    errors = bytearray()
    ending = Ending(["sh", "-c", script], errors.extend)
    ran = subprocess.run(ending.argv, capture_output=True, timeout=60)
    ending.feed(ran.stderr)
    ending.finish()
    assert (ending.code, ran.returncode) == (code, code)
    said = (b"out\n", b"err\n") if "echo" in script else (b"", b"")
    assert (ran.stdout, bytes(errors)) == said


def test_a_lease_says_why_it_was_lost() -> None:
    """What the service refused is tried again, and is part of the error when the sandbox is gone."""

    async def check() -> None:
        asked: list[float] = []
        tried = asyncio.Event()

        async def extend(seconds: float) -> None:
            asked.append(seconds)
            if len(asked) == 1:
                raise SandboxError("sandbox-failed", backend="cloud", problem="over the plan's limit", fix="")
            tried.set()
            raise SandboxGoneError("sandbox-gone", backend="cloud", problem="it ended", fix="")

        lease = Lease(extend, term=0.3, lifetime=600)
        await asyncio.wait_for(tried.wait(), 60)
        with pytest.raises(SandboxGoneError, match="could not be extended"), gone_because(lease):
            raise SandboxGoneError("sandbox-gone", backend="cloud", problem="not found", fix="")
        assert asked == [0.3, 0.3]
        await lease.end()

    asyncio.run(check())


def test_what_is_made_after_a_cancellation_is_removed() -> None:
    """A caller that is cancelled while a sandbox is being made leaves none behind."""

    async def check() -> None:
        begun, let = asyncio.Event(), asyncio.Event()
        removed: list[str] = []

        async def make() -> str:
            begun.set()
            await let.wait()
            return "box"

        async def remove(made: str) -> None:
            removed.append(made)

        task = asyncio.create_task(made_or_removed(make(), remove))
        await begun.wait()
        task.cancel()
        let.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert removed == ["box"]

    asyncio.run(check())
