"""Server-sent events, however a stream is cut into chunks."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval.streams import ServerSentEvent, SseDecoder, sse_events


def _events(
    data: bytes, *, cuts: list[int] | None = None, limit: int = 1000
) -> tuple[list[ServerSentEvent], SseDecoder]:
    decoder = SseDecoder(max_event_chars=limit)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts or [])})
    found = [event for start, end in itertools.pairwise(edges) for event in decoder.feed(data[start:end])]
    return [*found, *decoder.finish()], decoder


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [ServerSentEvent(data="a")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [ServerSentEvent(data="a"), ServerSentEvent(data="b")]),
        (b"data: a\r\rdata: b\r\r", [ServerSentEvent(data="a"), ServerSentEvent(data="b")]),
        (b"data: a\ndata: b\n\n", [ServerSentEvent(data="a\nb")]),
        (b"event: done\nid: 7\ndata:{}\n\n", [ServerSentEvent(data="{}", event="done", id="7")]),
        (b": keep-alive\n\n: again\ndata: a\n\n", [ServerSentEvent(data="a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [ServerSentEvent(data="a")]),
        (b"data: \xff\n\n", [ServerSentEvent(data="\ufffd")]),
        (b"data\n\n", [ServerSentEvent(data="")]),
        (b"event: nothing\n\n", []),
        (b"retry: 3\nother: x\n\n", []),
        (b"", []),
    ],
)
def test_a_stream_is_read_as_the_standard_says(stream: bytes, events: list[ServerSentEvent]) -> None:
    """Line ends, comments, names, ids, several data lines and a byte order mark are read as the format defines them."""
    assert _events(stream)[0] == events


_LINES = st.lists(
    st.one_of(
        st.builds(lambda text: f"data: {text}", st.text(st.characters(blacklist_characters="\r\n", codec="utf-8"))),
        st.sampled_from(["", "", ": ping", "event: x", "id: 1", "data"]),
    )
)


@given(lines=_LINES, end=st.sampled_from(["\n", "\r", "\r\n"]), cuts=st.lists(st.integers(0, 10_000)))
def test_chunks_may_fall_anywhere(lines: list[str], end: str, cuts: list[int]) -> None:
    """Whatever the chunks, also within a character or between CR and LF, the events are the same."""
    data = "".join(line + end for line in lines).encode()
    whole, _ = _events(data)
    assert _events(data, cuts=cuts)[0] == whole


@pytest.mark.parametrize("stream", [b"data: a\n\ndata: b", b"data: a\n\ndata: b\n", b"data: a\n\nev"])
def test_a_cut_stream_says_so(stream: bytes) -> None:
    """What ended before the cut is kept, what did not is none, and the reader can ask."""
    events, decoder = _events(stream)
    assert events == [ServerSentEvent(data="a")]
    assert decoder.unfinished


@given(cuts=st.lists(st.integers(0, 10_000)), size=st.integers(101, 500))
def test_an_oversized_event_is_left_out_and_counted(cuts: list[int], size: int) -> None:
    """One event that is too long harms none of its neighbours, and is not kept in memory."""
    data = b"data: a\n\ndata: " + b"x" * size + b"\ndata: y\n\ndata: b\n\n"
    events, decoder = _events(data, cuts=cuts, limit=100)
    assert events == [ServerSentEvent(data="a"), ServerSentEvent(data="b")]
    assert (decoder.oversized, decoder.unfinished) == (1, False)


def test_the_events_of_a_response_come_as_they_arrive() -> None:
    """An event is there before the next chunk is asked for."""
    asked: list[str] = []

    async def body() -> AsyncIterator[bytes]:
        for chunk in (b"data: a\n", b"\ndata: b\n\n"):
            asked.append("chunk")
            yield chunk
        asked.append("end")

    async def read() -> list[tuple[str, int]]:
        return [(event.data, len(asked)) async for event in sse_events(body())]

    assert asyncio.run(read()) == [("a", 2), ("b", 2)]
