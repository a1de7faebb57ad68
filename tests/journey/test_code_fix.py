"""The example of an agent in a sandbox comes out as its README says, on this machine and in a container."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docker_engine import image_for_tests, why_no_image
from tests.journey.whole_runs import Done, command, environment, finish, start

EXAMPLE = Path(__file__).parents[2] / "examples" / "code_fix"

pytestmark = pytest.mark.slow


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A copy of the example."""
    ignore = shutil.ignore_patterns(".niceeval", "__pycache__")
    return Path(shutil.copytree(EXAMPLE, tmp_path / "code_fix", ignore=ignore))


def outcomes(done: Done) -> dict[tuple[str, str], str]:
    """By experiment and eval."""
    return {(experiment, eval_id): result["outcome"] for (experiment, eval_id, _), result in done.results.items()}


def test_a_good_repair_passes_and_a_bad_one_does_not(example: Path) -> None:
    """The careful one's change is seen as its own and the hidden tests pass; the hasty one's green tests are no use."""
    done = finish(start(example, "compare", short=False), example)
    assert outcomes(done) == {
        ("compare/careful", "fix/median"): "passed",
        ("compare/careful", "fix/slugs"): "passed",
        ("compare/hasty", "fix/median"): "failed",
        ("compare/hasty", "fix/slugs"): "failed",
    }, done.out + done.err
    for eval_id in ("fix/median", "fix/slugs"):
        failed = [one for one in done.result(eval_id, "compare/hasty")["assertions"] if not one["passed"]]
        names = [one["name"] for one in failed]
        assert any(name.startswith("file_changed") for name in names), names
        assert any(name.startswith("not_in_diff") for name in names), names
        assert len(names) == 4, names
        result = done.result(eval_id, "compare/careful")
        assert result["sandbox"]["backend"] == "local"
        assert {"sandbox", "setup", "eval", "diff", "teardown"} <= set(result["phases"])


@pytest.mark.skipif(why_no_image("tiny-py") is not None, reason=str(why_no_image("tiny-py")))
def test_the_same_evals_hold_in_a_container(example: Path) -> None:
    """Nothing but the sandbox differs."""
    image = image_for_tests("tiny-py")
    process = subprocess.Popen(
        command("exp", "in_docker", short=False),
        cwd=example,
        env=environment(CODE_FIX_IMAGE=image),
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    done = finish(process, example)
    assert outcomes(done) == {("in_docker", "fix/median"): "passed", ("in_docker", "fix/slugs"): "passed"}, done.err
    assert done.result("fix/median")["sandbox"]["backend"] == "docker"
