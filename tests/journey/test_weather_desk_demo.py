"""The example's demo: the whole way from files to verdicts, against a real service."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "weather_desk"


@pytest.mark.slow
def test_the_demo_comes_out_as_it_says(tmp_path: Path) -> None:
    """Exactly the evals that should fail do, and the demo ends well and says what to look at."""
    example = tmp_path / "weather_desk"
    shutil.copytree(EXAMPLE, example, ignore=shutil.ignore_patterns(".niceeval", "__pycache__"))
    done = subprocess.run(
        [sys.executable, str(example / "demo.py")], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "27 pairs passed, 3 failed and 2 errored" in done.stdout
