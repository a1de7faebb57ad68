"""The example of answers that a model judges comes out as its README says, and again without asking."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.journey.whole_runs import finish, start

EXAMPLE = Path(__file__).parents[2] / "examples" / "judge"

pytestmark = pytest.mark.slow
pytest.importorskip("autoevals", reason="autoevals is not installed: pip install 'niceeval[judges]'")
pytest.importorskip("openai", reason="openai is not installed: pip install 'niceeval[judges]'")


def test_the_judge_tells_the_desks_apart(tmp_path: Path) -> None:
    """The desk that knows passes and the one that guesses fails at the criterion; what judging cost stands apart."""
    ignore = shutil.ignore_patterns(".niceeval", "__pycache__")
    example = Path(shutil.copytree(EXAMPLE, tmp_path / "desk", ignore=ignore))
    knows = finish(start(example, "knows", short=False), example)
    assert {result["outcome"] for result in knows.results.values()} == {"passed"}, knows.out + knows.err
    assert "judge <$0.01" in knows.out
    borough = knows.result("answers/borough", "knows")
    assert borough["judgeUsage"] == {"inputTokens": 200, "outputTokens": 40, "requests": 2}
    assert borough["judgeCostUSD"] == pytest.approx(0.00018)
    assert "usage" not in borough
    judged = borough["assertions"][1]["judge"]
    assert (judged["recipe"], judged["model"], judged["choice"]) == ("factuality", "scripted-judge", "C")
    [kept] = example.glob(f".niceeval/*/{borough['artifactsDir']}/judgements.json")
    assert [one["score"] for one in json.loads(kept.read_text("utf-8"))] == [1.0, 1.0]

    again = finish(start(example, "knows", short=False), example)
    assert {bool(result.get("carriedFrom")) for result in again.results.values()} == {True}, again.out + again.err
    assert again.result("answers/borough", "knows")["hasJudgements"] is True

    guesses = finish(start(example, "guesses", short=False), example)
    assert guesses.result("answers/borough", "guesses")["outcome"] == "failed", guesses.out + guesses.err
