"""The example of a desk behind an OpenAI-compatible endpoint comes out as its README says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.journey.whole_runs import finish, start

EXAMPLE = Path(__file__).parents[2] / "examples" / "openai_compatible"
EVALS = ("book/as_data", "book/due", "book/memory", "book/two_books", "renewal/approved", "renewal/one_of_two")

pytestmark = pytest.mark.slow
pytest.importorskip("httpx2", reason="httpx2 is not installed: pip install 'niceeval[http]'")


def test_the_desk_is_the_same_over_both_protocols(tmp_path: Path) -> None:
    """Every eval passes over both protocols and the calls of the tools are counted."""
    ignore = shutil.ignore_patterns(".niceeval", "__pycache__")
    example = Path(shutil.copytree(EXAMPLE, tmp_path / "desk", ignore=ignore))
    done = finish(start(example, "compare", short=False), example)
    outcomes = {(experiment, eval_id): result["outcome"] for (experiment, eval_id, _), result in done.results.items()}
    protocols = ("compare/chat_completions", "compare/responses")
    assert outcomes == {(one, each): "passed" for one in protocols for each in EVALS}, done.out + done.err
    for protocol in protocols:
        assert done.result("book/due", protocol)["usage"]["requests"] == 2
        assert done.result("book/due", protocol)["coverage"]["actions"]["status"] == "complete"
