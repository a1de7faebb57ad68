"""The example of an agent made with Pydantic AI comes out as its README says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.journey.whole_runs import finish, start

EXAMPLE = Path(__file__).parents[2] / "examples" / "pydantic_ai"
EVALS = (
    "order/memory",
    "order/states_as_data",
    "order/unknown_order",
    "refund/looks_first",
    "refund/respects_a_refusal",
    "refund/two_at_once",
)

pytestmark = pytest.mark.slow
pytest.importorskip("pydantic_ai", reason="Pydantic AI is not installed: pip install 'niceeval[pydantic-ai]'")


def test_the_careful_one_passes_and_the_hasty_one_is_noticed(tmp_path: Path) -> None:
    """Only the one that refunds without looking fails, and only where that is asked."""
    ignore = shutil.ignore_patterns(".niceeval", "__pycache__")
    example = Path(shutil.copytree(EXAMPLE, tmp_path / "desk", ignore=ignore))
    done = finish(start(example, "compare", short=False), example)
    outcomes = {(experiment, eval_id): result["outcome"] for (experiment, eval_id, _), result in done.results.items()}
    wanted = {(f"compare/{style}", eval_id): "passed" for style in ("careful", "hasty") for eval_id in EVALS}
    wanted["compare/hasty", "refund/looks_first"] = "failed"
    assert outcomes == wanted, done.out + done.err
    assert done.result("refund/two_at_once", "compare/careful")["usage"]["requests"] == 3
