"""The example of an agent made with LangGraph comes out as its README says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.journey.whole_runs import finish, start

EXAMPLE = Path(__file__).parents[2] / "examples" / "langgraph"
EVALS = (
    "booking/looks_first",
    "booking/respects_a_refusal",
    "booking/two_at_once",
    "question/asks_what_is_missing",
    "question/memory",
    "question/unknown_flight",
)

pytestmark = pytest.mark.slow
pytest.importorskip("langchain", reason="LangChain is not installed: pip install 'niceeval[langgraph]'")


def test_the_careful_one_passes_and_the_hasty_one_is_noticed(tmp_path: Path) -> None:
    """Only the one that books without looking fails, and only where that is asked."""
    ignore = shutil.ignore_patterns(".niceeval", "__pycache__")
    example = Path(shutil.copytree(EXAMPLE, tmp_path / "desk", ignore=ignore))
    done = finish(start(example, "compare", short=False), example)
    outcomes = {(experiment, eval_id): result["outcome"] for (experiment, eval_id, _), result in done.results.items()}
    wanted = {(f"compare/{style}", eval_id): "passed" for style in ("careful", "hasty") for eval_id in EVALS}
    wanted["compare/hasty", "booking/looks_first"] = "failed"
    assert outcomes == wanted, done.out + done.err
    assert done.result("booking/two_at_once", "compare/careful")["usage"]["requests"] == 3
