"""What an engine sends and is sent: frames, addresses, names, build contexts. No engine is needed."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval.backends.docker._address import candidates, parse_address
from niceeval.backends.docker._context import DockerIgnore, build_context
from niceeval.backends.docker._frames import STDERR, STDOUT, FrameError, FrameParser
from niceeval.backends.docker._images import split_name
from niceeval.sandbox import SandboxError, SandboxUnavailableError

FRAMES = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=300)), max_size=20)


def framed(frames: list[tuple[int, bytes]]) -> bytes:
    return b"".join(bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for kind, data in frames)


@given(FRAMES, st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_frames_come_out_whole_however_they_are_cut(frames: list[tuple[int, bytes]], sizes: list[int]) -> None:
    """The output of each stream is what was sent, in order, whatever pieces the connection gives."""
    stream, parser = framed(frames), FrameParser()
    found: dict[int, bytes] = {STDOUT: b"", STDERR: b""}
    at = number = 0
    while at < len(stream):
        size = sizes[number % len(sizes)]
        for kind, data in parser.feed(stream[at : at + size]):
            found[kind] += data
        at, number = at + size, number + 1
    assert parser.between
    for stream_kind in (STDOUT, STDERR):
        assert found[stream_kind] == b"".join(data for kind, data in frames if kind == stream_kind)


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_an_error(data: bytes) -> None:
    """Bytes that are no frames are a FrameError, and nothing else."""
    parser = FrameParser()
    try:
        size = sum(len(part) for _, part in parser.feed(data))
    except FrameError:
        return
    assert size <= len(data)


@pytest.mark.parametrize(
    ("text", "shown", "tls"),
    [
        ("unix:///run/x.sock", "unix:///run/x.sock", False),
        ("/run/x.sock", "unix:///run/x.sock", False),
        ("tcp://10.0.0.1", "tcp://10.0.0.1:2375", False),
        ("tcp://10.0.0.1:99", "tcp://10.0.0.1:99", False),
        ("https://engine", "tcp://engine:2376", True),
        ("tcp://[::1]:99", "tcp://[::1]:99", False),
    ],
)
def test_addresses_are_read(text: str, shown: str, tls: bool) -> None:
    """The forms that DOCKER_HOST may have are understood."""
    address = parse_address(text)
    assert (str(address), address.tls) == (shown, tls)


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_an_error_that_says_what_to_write(text: str) -> None:
    """What is no address is refused in one way."""
    try:
        address = parse_address(text)
    except SandboxUnavailableError as error:
        advice = str(error.fields["fix"])
    else:
        advice = "tcp://" if address.path or address.host else ""
    assert "tcp://" in advice


def test_the_address_that_is_said_comes_first() -> None:
    """An address in the spec counts before DOCKER_HOST, and that before the usual sockets, Podman's among them."""
    environ = {"DOCKER_HOST": "tcp://there:1", "HOME": "/h", "XDG_RUNTIME_DIR": "/r"}
    assert [str(found) for found in candidates("unix:///x", environ)] == ["unix:///x"]
    assert [str(found) for found in candidates(None, environ)] == ["tcp://there:1"]
    usual = [found.path for found in candidates(None, {**environ, "DOCKER_HOST": ""})]
    assert usual[0] == "/var/run/docker.sock"
    assert {"/r/podman/podman.sock", "/run/podman/podman.sock", "/h/.docker/run/docker.sock"} <= set(usual)


@pytest.mark.parametrize(
    ("name", "base", "tag"),
    [
        ("node", "node", "latest"),
        ("node:24-slim", "node", "24-slim"),
        ("host:5000/a/b", "host:5000/a/b", "latest"),
        ("host:5000/a/b:c", "host:5000/a/b", "c"),
        ("a/b@sha256:00", "a/b", "sha256:00"),
    ],
)
def test_image_names_are_split(name: str, base: str, tag: str) -> None:
    """A registry's port is no tag, and a digest is one."""
    assert split_name(name) == (base, tag)


@pytest.mark.parametrize(
    ("lines", "ignored", "kept"),
    [
        (["*.log"], ["a.log"], ["b/a.log", "a.logs"]),
        (["**/*.log"], ["a.log", "b/c/a.log"], ["a.txt"]),
        (["/node_modules"], ["node_modules", "node_modules/x"], ["a/node_modules"]),
        (["docs", "!docs/keep.md"], ["docs/a.md"], ["docs/keep.md"]),
        (["# a comment", "", "a?c"], ["abc"], ["ac", "a/c"]),
        (["[ab].txt"], ["a.txt", "b.txt"], ["c.txt"]),
    ],
)
def test_a_dockerignore_leaves_out_what_docker_leaves_out(
    lines: list[str], ignored: list[str], kept: list[str]
) -> None:
    """Patterns are rooted, `**` is any depth, the last match decides."""
    rules = DockerIgnore(lines)
    assert [path for path in [*ignored, *kept] if rules.ignores(path)] == ignored


def test_a_context_is_what_the_files_are_whenever_they_were_written(tmp_path: Path) -> None:
    """The digest follows contents, not times; ignored files are in neither; the Dockerfile always is."""
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / ".dockerignore").write_text("*\n!kept\n")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("one")
    (tmp_path / "secret").write_text("no")
    packed, digest = build_context(str(tmp_path / "Dockerfile"))
    with packed, tarfile.open(fileobj=packed) as tar:
        assert sorted(tar.getnames()) == [".dockerignore", "Dockerfile", "kept", "kept/file"]
    (tmp_path / "secret").write_text("another")
    (tmp_path / "kept/file").write_text("one")
    again, same = build_context(str(tmp_path / "Dockerfile"))
    again.close()
    (tmp_path / "kept/file").write_text("two")
    changed, other = build_context(str(tmp_path / "Dockerfile"))
    changed.close()
    assert digest == same != other


def test_a_dockerfile_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The error says which file."""
    with pytest.raises(SandboxError, match=r"no Dockerfile at .*nothing"):
        build_context(str(tmp_path / "nothing"))
