"""What a terminal or a log may be given."""

from __future__ import annotations

import io
import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._base.terminal import (
    ASCII,
    UNICODE,
    Stream,
    Style,
    age,
    board_allowed,
    break_ci_commands,
    cell_width,
    clean,
    clean_lines,
    clock,
    colour_wanted,
    cut_counted,
    cut_end,
    cut_middle,
    duration,
    glyphs_for,
    graphemes,
    money,
    seconds,
    size,
    tokens,
    wrap,
)
from tests.unit.fake_terminals import Emulator, a_pipe, text_of

_FORBIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\x1b\x9b\x9d\x90\x07\r\n\t\x08\u202e\u200b\u200d\ufe0f\ud800:#[]m;?\\中👍🏽🇩e\u0301"),
    )
)


@pytest.mark.parametrize(
    ("text", "symbol", "visible"),
    [
        ("\x1b[2Jx", "␛x", "\\x1b[2Jx"),
        ("\x1b[1;31mred\x1b[0m", "␛red␛", "\\x1b[1;31mred\\x1b[0m"),
        ("\x1b]0;title\x07x", "␛x", "\\x1b]0;title\\x07x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "␛link␛", "\\x1b]8;;http://a\\x1b\\link\\x1b]8;;\\x1b\\"),
        ("\x1b]52;c;aGk=", "␛52;c;aGk=", "\\x1b]52;c;aGk="),
        ("\x1bP1$r\x1b\\x", "␛x", "\\x1bP1$r\\x1b\\x"),
        ("\x9b31mx", "␛x", "\\x9b31mx"),
        ("\x9d0;t\x9cx", "␛x", "\\x9d0;t\\x9cx"),
        ("\x1b", "␛", "\\x1b"),
        ("\x1b(Bx", "␛x", "\\x1b(Bx"),
    ],
)
def test_an_escape_sequence_becomes_one_symbol_or_is_spelled_out(text: str, symbol: str, visible: str) -> None:
    """A sequence is shown as having been there; an unterminated one does not hide what follows it."""
    assert clean(text) == symbol
    assert clean(text, escapes="visible") == visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\rb", "a\\u{d}b"),
        ("a\x08b", "a\\u{8}b"),
        ("a\u202eb", "a\\u{202e}b"),
        ("a\u200bb", "a\\u{200b}b"),
        ("a\ud800b", "a\\u{d800}b"),
        ("a\u2028b", "a\\u{2028}b"),
        ("a\U000e0041b", "a\\u{e0041}b"),
        ("one\ntwo\r\nthree", "one\\ntwo\\nthree"),
        ("a\tb", "a    b"),
        ("❤\ufe0f ok", "❤ ok"),
        ("中文 日本 é e\u0301 👍🏽 🇩🇪", "中文 日本 é e\u0301 👍🏽 🇩🇪"),
        ("[red]x[/red] :smile: {n} %s", "[red]x[/red] :smile: {n} %s"),
    ],
)
def test_other_unseen_characters_become_visible_and_text_stays(text: str, shown: str) -> None:
    """Controls, bidi, zero-width and surrogates are written by number; markup and letters are left alone."""
    assert clean(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::x", ": :error::x"),
        ("  ::set-output name=a::b", "  : :set-output name=a::b"),
        ("\u3000::error::x", "\u3000: :error::x"),
        ("std::vector", "std::vector"),
        ("##[error]x", "## [error]x"),
        ("a ##vso[task.setvariable]b", "a ##vso [task.setvariable]b"),
        ("##teamcity[x]", "##teamcity [x]"),
        ("## heading", "## heading"),
    ],
)
def test_a_ci_system_finds_no_command(text: str, shown: str) -> None:
    """Whatever GitHub, Azure or TeamCity would obey is broken by a space; ordinary text is not."""
    assert clean(text) == shown
    assert break_ci_commands(text) == shown


@given(_HOSTILE)
def test_cleaned_text_has_nothing_a_terminal_obeys(text: str) -> None:
    """No control, format character, surrogate or line break survives, whatever came in."""
    for escapes in ("symbol", "visible"):
        cleaned = clean(text, escapes=escapes)
        assert not [char for char in cleaned if unicodedata.category(char) in _FORBIDDEN]
        assert not cleaned.lstrip().startswith("::")
        assert "##[" not in cleaned
        assert "##vso[" not in cleaned


@given(_HOSTILE)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    """Clean text is left as it is."""
    assert clean(clean(text)) == clean(text)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_ascii_is_kept(text: str) -> None:
    """Text that commands nothing is unchanged."""
    if "::" not in text and "##" not in text:
        assert clean(text) == text


def test_text_of_several_lines_is_cleaned_line_by_line() -> None:
    """Each line is cleaned, and a final line end makes no empty line."""
    assert clean_lines("a\r\n::error::b\n\x1b[2Jc\n") == ["a", ": :error::b", "␛c"]


@given(_HOSTILE, st.integers(0, 30))
def test_no_cut_exceeds_its_width(text: str, cells: int) -> None:
    """Whatever the text, a cut of n cells takes at most n."""
    cleaned = clean(text)
    for cut in (cut_end, cut_counted, cut_middle):
        assert cell_width(cut(cleaned, cells)) <= cells


@given(_HOSTILE, st.integers(0, 30))
def test_no_cut_splits_what_a_person_sees_as_one(text: str, cells: int) -> None:
    """What remains of the text is a run of its own graphemes."""
    cleaned = clean(text).replace("…", "")
    whole = list(graphemes(cleaned))
    head = list(graphemes(cut_end(cleaned, cells).removesuffix("…")))
    assert head == whole[: len(head)]
    left, _, right = cut_middle(cleaned, cells).partition("…")
    assert list(graphemes(left)) == whole[: len(graphemes(left))]
    assert list(graphemes(right)) == whole[len(whole) - len(graphemes(right)) :]


@pytest.mark.parametrize(
    ("text", "cells", "expected"),
    [
        ("compare/some/long/gpt-5.4", 18, "compare/…/gpt-5.4"),
        ("weather", 7, "weather"),
        ("abcdefghij", 5, "ab…ij"),
        ("中文中文中文", 7, "中文…文"),
    ],
)
def test_ids_are_cut_in_the_middle(text: str, cells: int, expected: str) -> None:
    """Both ends of an id stay, whole path segments where they fit."""
    assert cut_middle(text, cells) == expected


def test_agent_text_says_how_much_was_cut() -> None:
    """What is left and what the mark counts add up to the text."""
    shown = cut_counted("x" * 442, 47)
    assert shown == "x" * 34 + " [+408 chars]"


def test_prose_wraps_at_spaces_and_says_what_is_left() -> None:
    """The last line allowed is cut with a count."""
    assert wrap("one two three", 7, lines=5) == ["one two", "three"]
    assert wrap("one two " + "x" * 60, 20, lines=2) == ["one two", "xxxxxxxx [+52 chars]"]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (duration(340), "340ms"),
        (duration(999.7), "1s"),
        (duration(34_000), "34s"),
        (duration(59_700), "1m 00s"),
        (duration(391_000), "6m 31s"),
        (duration(3_840_000), "1h 04m"),
        (duration(3_599_600), "1h 00m"),
        (seconds(12_040), "12.0s"),
        (clock(31), "0:31"),
        (clock(252, wide=True), "04:12"),
        (clock(3_852), "1:04:12"),
        (tokens(812), "812"),
        (tokens(8_100), "8.1k"),
        (tokens(4_000), "4k"),
        (tokens(9_960), "10k"),
        (tokens(58_000), "58k"),
        (tokens(999_600), "1M"),
        (tokens(2_400_000), "2.4M"),
        (money(0.44), "$0.44"),
        (money(0.004), "<$0.01"),
        (money(0.0), "$0"),
        (money(None), "cost unknown"),
        (money(float("nan")), "cost unknown"),
        (money(1234.5), "$1,234.50"),
        (size(1_200_000_000), "1.2 GB"),
        (size(2_100), "2.1 kB"),
        (age(7_300), "2h ago"),
    ],
)
def test_figures_have_one_form(shown: str, expected: str) -> None:
    """Every figure is short, carries its unit, and does not change with a locale."""
    assert shown == expected


@given(st.floats(0, 1e6))
def test_no_amount_of_money_reads_as_nothing(usd: float) -> None:
    """A cost is never printed as $0.00."""
    assert "$0.00" not in money(usd)


@pytest.mark.parametrize(
    ("encoding", "language", "glyphs"),
    [
        ("utf-8", "en", UNICODE),
        ("ascii", "en", ASCII),
        ("cp1252", "en", ASCII),
        ("cp936", "en", ASCII),
        ("utf-8", "zh", ASCII),
        ("no-such", "en", ASCII),
        (None, "en", UNICODE),
    ],
)
def test_glyphs_come_as_a_set(encoding: str | None, language: str, glyphs: object) -> None:
    """One glyph that an encoding lacks, or that is of unsure width, takes the ASCII set."""
    assert glyphs_for(encoding, language) is glyphs


@pytest.mark.parametrize("errors", ["strict", "backslashreplace"])
@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp936", "utf-8"])
def test_a_stream_never_raises_for_its_encoding(encoding: str, errors: str) -> None:
    """What does not fit is written by number, whatever Python was told to do about it."""
    pipe = a_pipe(encoding, errors)
    stream = Stream(pipe)
    stream.write("é 中 👍 \ud800\n")
    written = text_of(pipe)
    assert "\\u{d800}" in written
    assert ("中" in written) or ("\\u{4e2d}" in written)


def test_a_closed_pipe_is_met_with_silence() -> None:
    """Once the reader has gone, writing does nothing, also at the interpreter's exit."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as raw:
        stream = Stream(raw)
        stream.write("x\n")
        stream.flush()
        assert stream.closed
        stream.write("y\n")
        stream.flush()


@pytest.mark.parametrize(
    ("isatty", "environ", "wanted"),
    [
        (True, {"TERM": "xterm"}, True),
        (False, {"TERM": "xterm"}, False),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (False, {"FORCE_COLOR": "0"}, False),
    ],
)
def test_colour_follows_the_usual_variables(isatty: bool, environ: dict[str, str], wanted: bool) -> None:
    """NO_COLOR wins when it is not empty, FORCE_COLOR colours a pipe, a dumb terminal has none."""
    assert colour_wanted(isatty, environ) is wanted


@pytest.mark.parametrize(
    ("environ", "quiet", "pipe", "allowed"),
    [
        ({"TERM": "xterm"}, False, False, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, False, True),
        ({"TERM": "dumb"}, False, False, False),
        ({"TERM": "xterm", "CI": "1"}, False, False, False),
        ({"TERM": "xterm"}, True, False, False),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, False, True, False),
    ],
)
def test_a_board_needs_two_terminals(environ: dict[str, str], quiet: bool, pipe: bool, allowed: bool) -> None:
    """No board in CI, on a dumb terminal, with --quiet, or where one of the streams goes elsewhere."""
    terminal = Stream(Emulator(80, 24).stream())  # type: ignore[arg-type]
    other = Stream(io.StringIO()) if pipe else terminal
    assert board_allowed(other, terminal, quiet=quiet, environ=environ) is allowed


def test_secrets_go_before_anything_else() -> None:
    """A secret is replaced also where cleaning would have changed how it is spelled."""
    style = Style(redact=lambda text: text.replace("s3\x1bcret", "[redacted]"))
    assert style.clean("key s3\x1bcret!") == "key [redacted]!"


def test_a_mark_always_carries_its_word() -> None:
    """Colour repeats what the word says."""
    assert Style().mark("failed") == "✗ failed"
    assert Style(glyphs=ASCII).mark("failed") == "x failed"
    assert Style(color=True).mark("failed") == "\x1b[31m✗ failed\x1b[0m"
