"""Entries, their handles, values, groups and points, and what an attempt comes to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, assert_type

import pytest

from niceeval import EvalContext
from niceeval._model.result import Points, Verdict
from niceeval._model.verdict import fold_attempts
from niceeval.adapter import Coverage, EvidenceCoverage
from niceeval.expect import equals, includes, is_defined, is_true, not_, satisfies, similarity
from tests.unit.drive_harness import Ran, agent, run_eval, says, turn

Say = Callable[[EvalContext], object]


def record(*says_: Say, strict: bool = False) -> Ran:
    """An eval that records these, without sending anything."""

    async def case(t: EvalContext) -> None:
        for say in says_:
            say(t)

    return run_eval(case, strict=strict)


def graded(score: float) -> Callable[[object], float]:
    """A plain callable that answers with a score."""
    return lambda value: score


class Line(NamedTuple):
    """How an entry is configured, and what a score then comes to."""

    name: str
    say: Say
    severity: str
    threshold: float | None
    outcome: str
    verdict: str
    strict: str


def _with(score: float, *chain: tuple[str, tuple[Any, ...]], similar: bool = False) -> Say:
    def say(t: EvalContext) -> object:
        # "abcd" and "abxy" are half alike.
        handle: Any = t.check("abxy", similarity("abcd")) if similar else t.check(1, graded(score))
        for method, arguments in chain:
            handle = getattr(handle, method)(*arguments)
        return handle

    return say


LINES = [
    Line("default, full", _with(1.0), "gate", None, "passed", "passed", "passed"),
    Line("default, short", _with(0.9), "gate", None, "failed", "failed", "failed"),
    Line("gate with a line", _with(0.7, ("gate", (0.7,))), "gate", 0.7, "passed", "passed", "passed"),
    Line("gate below its line", _with(0.69, ("gate", (0.7,))), "gate", 0.7, "failed", "failed", "failed"),
    Line("at least, reached", _with(0.5, ("at_least", (0.5,))), "soft", 0.5, "passed", "passed", "passed"),
    Line("at least, missed", _with(0.4, ("at_least", (0.5,))), "soft", 0.5, "failed", "passed", "failed"),
    Line("soft", _with(0.0, ("soft", ())), "soft", None, "passed", "passed", "passed"),
    Line(
        "soft takes the line away",
        _with(0.1, ("at_least", (0.5,)), ("soft", ())),
        "soft",
        None,
        "passed",
        "passed",
        "passed",
    ),
    Line(
        "gate keeps the line", _with(0.6, ("at_least", (0.5,)), ("gate", ())), "gate", 0.5, "passed", "passed", "passed"
    ),
    Line("soft, then gate", _with(0.9, ("soft", ()), ("gate", ())), "gate", None, "failed", "failed", "failed"),
    Line(
        "the last word holds",
        _with(0.1, ("gate", (0.9,)), ("at_least", (0.5,))),
        "soft",
        0.5,
        "failed",
        "passed",
        "failed",
    ),
    Line("similarity", _with(0, similar=True), "soft", 0.6, "failed", "passed", "failed"),
    Line("similarity, lower", _with(0, ("at_least", (0.5,)), similar=True), "soft", 0.5, "passed", "passed", "passed"),
    Line("similarity as a gate", _with(0, ("gate", ()), similar=True), "gate", 0.6, "failed", "failed", "failed"),
    Line("similarity without a line", _with(0, ("soft", ()), similar=True), "soft", None, "passed", "passed", "passed"),
    Line("line of 0", _with(0.0, ("gate", (0,))), "gate", 0.0, "passed", "passed", "passed"),
    Line(
        "optional is no excuse for a failure", _with(0.5, ("optional", ())), "gate", None, "failed", "failed", "failed"
    ),
]


@pytest.mark.parametrize("line", LINES, ids=[line.name for line in LINES])
def test_severity_and_line_decide_the_outcome(line: Line) -> None:
    """And `--strict` turns a missed soft line into a failed verdict, leaving lineless ones alone."""
    entry = record(line.say).only
    assert (entry.severity, entry.threshold, entry.outcome) == (line.severity, line.threshold, line.outcome)
    assert record(line.say).result.outcome == line.verdict
    assert record(line.say, strict=True).result.outcome == line.strict


@pytest.mark.parametrize("score", [0, 0.25, 1])
def test_the_score_is_kept_whatever_the_line(score: float) -> None:
    """It is recorded and compared."""
    assert record(lambda t: t.check(1, graded(score)).soft()).only.score == score


def test_a_scoped_assertion_is_configured_like_a_value() -> None:
    """Also one on `t`, which is evaluated after its handle was used."""

    async def case(t: EvalContext) -> None:
        t.called_tool("x").at_least(0.5).label("looks it up").optional()
        await t.send("go")

    ran = run_eval(case)
    entry = ran.only
    assert (entry.severity, entry.threshold, entry.outcome, entry.label, entry.optional) == (
        "soft",
        0.5,
        "failed",
        "looks it up",
        True,
    )
    assert ran.result.outcome == "passed"


BAD_HANDLES: list[tuple[Say, str]] = [
    (lambda t: t.check(1, equals(1)).gate(1.5), "gate: the line is 1.5"),
    (lambda t: t.check(1, equals(1)).at_least(True), "at_least: the line is True"),
    (lambda t: t.check(1, equals(1)).at_least("0.5"), "at_least: the line is '0.5'"),  # type: ignore[arg-type]
    (lambda t: t.check(1, equals(1)).at_least(float("nan")), "at_least: the line is nan"),
    (lambda t: t.check(1, equals(1)).points(0), "points: points is 0"),
    (lambda t: t.check(1, equals(1)).points(True), "points: points is True"),
    (lambda t: t.points(-1, "bonus"), "points: points is -1"),
]


@pytest.mark.parametrize(("say", "message"), BAD_HANDLES)
def test_a_line_or_points_that_mean_nothing_are_an_authors_error(say: Say, message: str) -> None:
    """With the author's place."""
    ran = record(say)
    assert (ran.result.outcome, ran.error_code) == ("errored", "bad-argument")
    assert ran.result.error_info is not None
    assert ran.result.error_info.message == message
    assert ran.result.error_info.loc is not None
    assert ran.result.error_info.loc.startswith("test_entries.py:")


def test_a_handle_has_no_truth_value() -> None:
    """So that `assert turn.called_tool(...)` cannot pass by being truthy."""
    ran = record(lambda t: t.check(1, equals(1)) and None)
    assert (ran.result.outcome, ran.error_code) == ("errored", "handle-as-bool")


# Values ---------------------------------------------------------------------------------------------------------


async def _answer() -> None:
    return None


async def _items() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("make", "code", "message"),
    [
        (lambda t: _answer(), "bad-argument", "the value is _answer(...), which was not awaited"),
        (lambda t: [1, _answer()], "bad-argument", "the value is _answer(...), which was not awaited"),
        (lambda t: {"a": _answer()}, "bad-argument", "the value is _answer(...), which was not awaited"),
        (lambda t: asyncio.get_running_loop().create_future(), "bad-argument", "the value is Future, which was not"),
        (lambda t: _items(), "bad-argument", "the value is _items(...), which was not read"),
        (lambda t: t.check(1, equals(1)), "bad-argument", "the value is the handle of <assertion equals(1)>"),
        (lambda t: t.succeeded(), "bad-argument", "the value is the handle of <assertion succeeded>"),
        (lambda t: t.send("go"), "send-not-awaited", "t.send(...) was not awaited: nothing was sent"),
    ],
)
@pytest.mark.parametrize("call", ["check", "require"])
@pytest.mark.parametrize("check", [is_defined(), not_(equals(None)), lambda value: value is not None])
def test_what_is_not_there_yet_is_no_value(
    make: Callable[[EvalContext], object], code: str, message: str, call: str, check: Any
) -> None:
    """A coroutine is always defined, whatever it would come to; the error says what to await."""

    async def case(t: EvalContext) -> None:
        getattr(t, call)(make(t), check)

    ran = run_eval(case)
    assert (ran.result.outcome, ran.error_code) == ("errored", code)
    assert message in str(ran.result.error)


def test_a_coroutine_that_was_given_says_what_to_write() -> None:
    """Ready to be copied."""
    ran = record(lambda t: t.check(_answer(), is_defined()))
    assert ran.result.error_info is not None
    assert ran.result.error_info.next == "write `await _answer(...)`"


def test_check_records_and_goes_on() -> None:
    """One entry a call, with both sides as text and the place."""
    ran = record(lambda t: t.check("It rains", includes("sun")), lambda t: t.check(2, equals(2)))
    assert ran.outcomes == ["failed", "passed"]
    entry = ran.result.assertions[0]
    assert (entry.name, entry.expected, entry.received) == ('includes("sun")', 'includes "sun"', '"It rains"')
    assert entry.loc is not None
    assert entry.loc.file == "test_entries.py"


def _is_long(text: str) -> bool:
    return len(text) > 3


@pytest.mark.parametrize(
    ("check", "name", "outcome"),
    [
        (_is_long, "_is_long", "passed"),
        (lambda text: 0.5, "lambda (line", "failed"),
        (satisfies(_is_long, "long enough"), "long enough", "passed"),
        (bool, "bool", "passed"),
    ],
)
def test_a_plain_callable_is_a_matcher(check: Any, name: str, outcome: str) -> None:
    """Named after itself; it answers with a bool or a score."""
    entry = record(lambda t: t.check("text", check)).only
    assert entry.name.startswith(name)
    assert entry.outcome == outcome


@pytest.mark.parametrize("check", [3, int, lambda value: "yes", lambda value: 2, lambda value: 1 / 0, is_defined])
def test_what_gives_no_answer_is_no_matcher(check: Any) -> None:
    """It is the author's error, not the agent's failure."""
    ran = record(lambda t: t.check(1, check))
    assert (ran.result.outcome, ran.error_code, ran.result.assertions) == ("errored", "bad-matcher", ())


def test_require_returns_the_value_as_what_it_was_found_to_be() -> None:
    """None is taken out of the type, and a predicate narrows it."""
    got: list[object] = []

    async def case(t: EvalContext) -> None:
        maybe: str | None = "x"
        text = t.require(maybe, is_defined(), "there is text")
        assert_type(text, str)
        flag = t.require(True, is_true())
        same = t.require([1], equals([1]))
        assert_type(same, list[int])
        got.extend([text, flag, same])

    ran = run_eval(case)
    assert got == ["x", True, [1]]
    assert [entry.label for entry in ran.result.assertions] == ["there is text", None, None]


@pytest.mark.parametrize(
    ("value", "check", "severity_line"),
    [
        (None, is_defined(), ("gate", None)),
        ("abxy", similarity("abcd"), ("gate", 0.6)),
        (1, graded(0.5), ("gate", None)),
    ],
)
def test_a_missed_require_stops_the_eval_as_a_failed_gate(value: Any, check: Any, severity_line: Any) -> None:
    """Always a gate, at the line the matcher has; what follows is not reached."""
    ran = record(lambda t: t.require(value, check), lambda t: t.check(1, equals(1)))
    assert (ran.result.outcome, ran.outcomes, ran.error_code) == ("failed", ["failed"], None)
    assert (ran.only.severity, ran.only.threshold) == severity_line


def test_a_require_that_holds_by_its_own_line_goes_on() -> None:
    """A similarity of 0.75 is enough for 0.6."""
    ran = record(lambda t: t.require("abcx", similarity("abcd")), lambda t: t.check(1, equals(1)))
    assert (ran.outcomes, ran.result.outcome) == (["passed", "passed"], "passed")


# Groups ---------------------------------------------------------------------------------------------------------


def test_groups_nest_and_end() -> None:
    """Also when left by an exception, and for assertions on `t`, which are evaluated later."""

    async def case(t: EvalContext) -> None:
        t.check(1, equals(1))
        with t.group("weather"):
            t.not_called_tool("x")
            with t.group("today"):
                t.check(1, equals(1))
            t.check(1, equals(1))
        try:
            with t.group("lost"):
                raise ValueError
        except ValueError:
            t.check(1, equals(1))
        await t.send("go")

    groups = [entry.group for entry in run_eval(case).result.assertions]
    assert groups == [None, "weather", "weather / today", "weather", None]


def test_groups_of_parallel_tasks_do_not_mix() -> None:
    """The current group is a context variable."""
    import asyncio

    async def case(t: EvalContext) -> None:
        async def one(name: str) -> None:
            with t.group(name):
                await asyncio.sleep(0)
                t.check(1, equals(1)).label(name)
                await asyncio.sleep(0)
                t.check(1, equals(1)).label(name)

        await asyncio.gather(one("a"), one("b"))

    for entry in run_eval(case).result.assertions:
        assert entry.group == entry.label


# Verdict --------------------------------------------------------------------------------------------------------

PARTIAL = EvidenceCoverage.complete_except(actions=Coverage.partial("half"))


def _fail(t: EvalContext) -> None:
    t.check(1, equals(2))


def _pass(t: EvalContext) -> None:
    t.check(1, equals(1))


def _miss_soft(t: EvalContext) -> None:
    t.check(1, equals(2)).at_least(1)


def _unavailable(t: EvalContext) -> None:
    t.used_no_tools()


def _optional(t: EvalContext) -> None:
    t.used_no_tools().optional()


def _skip(t: EvalContext) -> None:
    t.skip("no key")


def _plain_error(t: EvalContext) -> None:
    raise RuntimeError("bug")


VERDICTS: list[tuple[list[Say], Verdict, Verdict]] = [
    ([], "passed", "passed"),
    ([_pass], "passed", "passed"),
    ([_fail], "failed", "failed"),
    ([_fail, _pass], "failed", "failed"),
    ([_miss_soft], "passed", "failed"),
    ([_skip], "skipped", "skipped"),
    ([_pass, _skip], "skipped", "skipped"),
    ([_fail, _skip], "failed", "failed"),
    ([_miss_soft, _skip], "skipped", "failed"),
    ([_unavailable], "errored", "errored"),
    ([_unavailable, _fail], "errored", "errored"),
    ([_unavailable, _skip], "errored", "errored"),
    ([_optional], "passed", "passed"),
    ([_optional, _fail], "failed", "failed"),
    ([_optional, _skip], "skipped", "skipped"),
    ([_plain_error], "errored", "errored"),
    ([_fail, _plain_error], "errored", "errored"),
]


@pytest.mark.parametrize(("says_", "verdict", "strict"), VERDICTS)
def test_the_first_rule_that_holds_is_the_verdict(says_: list[Say], verdict: Verdict, strict: Verdict) -> None:
    """Errored, failed, skipped, passed."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        for say in says_:
            say(t)

    assert run_eval(case, agent(coverage=PARTIAL)).result.outcome == verdict
    assert run_eval(case, agent(coverage=PARTIAL), strict=True).result.outcome == strict


def test_an_agent_that_raises_makes_the_attempt_errored() -> None:
    """With its message, not with a failure of the agent's."""

    async def case(t: EvalContext) -> None:
        _fail(t)
        await t.send("go")

    ran = run_eval(case, agent(ConnectionError("refused")))
    assert (ran.result.outcome, ran.error_code) == ("errored", "adapter-error")
    assert ran.result.error == "ConnectionError: refused"
    assert ran.outcomes == ["failed"]


def test_a_timeout_makes_the_attempt_errored() -> None:
    """And what was recorded before is kept."""
    import asyncio

    async def case(t: EvalContext) -> None:
        _fail(t)
        await asyncio.sleep(60)

    ran = run_eval(case, timeout=0.05, grace=0.05)
    assert (ran.result.outcome, ran.error_code, ran.outcomes) == ("errored", "timeout", ["failed"])


def test_a_skip_keeps_its_reason_only_where_it_decides() -> None:
    """A gate that failed before still counts."""
    assert record(_skip).result.skip_reason == "no key"
    failed = record(_fail, _skip).result
    assert (failed.outcome, failed.skip_reason) == ("failed", None)


@pytest.mark.parametrize(
    ("attempts", "verdict"),
    [
        ([], None),
        (["passed"], "passed"),
        (["failed", "errored", "passed", "skipped"], "passed"),
        (["errored", "failed", "skipped"], "failed"),
        (["skipped", "errored"], "errored"),
        (["skipped", "skipped"], "skipped"),
    ],
)
def test_an_eval_folds_its_attempts(attempts: list[Verdict], verdict: Verdict | None) -> None:
    """Any passed, else failed before errored before skipped."""
    assert fold_attempts(attempts) == verdict


# Points ---------------------------------------------------------------------------------------------------------

POINTS: list[tuple[str, Say, float, float, Verdict]] = [
    ("passed", lambda t: t.check(1, equals(1)).points(3), 3, 3, "passed"),
    ("failed", lambda t: t.check(1, equals(2)).points(3), 0, 3, "passed"),
    ("failed gate", lambda t: t.check(1, equals(2)).points(3).gate(), 0, 3, "failed"),
    ("gate first", lambda t: t.check(1, equals(2)).gate().points(3), 0, 3, "failed"),
    ("graded", lambda t: t.check(1, graded(0.8)).at_least(0.5).points(5), 4, 5, "passed"),
    ("graded, missed", lambda t: t.check(1, graded(0.4)).at_least(0.5).points(5), 0, 5, "passed"),
    ("graded, lineless", lambda t: t.check(1, graded(0.4)).soft().points(5), 2, 5, "passed"),
    ("lineless", lambda t: t.check(1, equals(2)).soft().points(5), 0, 5, "passed"),
    ("outright", lambda t: t.points(2.5, "tidy"), 2.5, 2.5, "passed"),
]


@pytest.mark.parametrize(
    ("say", "earned", "possible", "verdict"), [line[1:] for line in POINTS], ids=[p[0] for p in POINTS]
)
def test_points_of_one_entry(say: Say, earned: float, possible: float, verdict: Verdict) -> None:
    """All when passed, score times points where graded, none when failed; only a gate touches the verdict."""
    for strict in (False, True):
        ran = record(say, strict=strict)
        assert ran.result.points == Points(earned=earned, possible=possible)
        assert ran.result.outcome == verdict
        assert ran.only.points == possible


def test_points_add_up() -> None:
    """Entries without points do not count; an unavailable one earns nothing."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        t.check(1, equals(1)).points(0.1)
        t.check(1, equals(1)).points(0.2)
        t.check(1, equals(1))
        t.used_no_tools().optional().points(4)

    ran = run_eval(case, agent(turn(says("x")), coverage=PARTIAL))
    assert ran.result.points == Points(earned=0.3, possible=4.3)


def test_an_attempt_without_points_has_none() -> None:
    """Not 0 of 0."""
    assert record(_pass).result.points is None
