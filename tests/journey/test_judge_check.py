"""`niceeval judge check` and `correct`, and evals that gate by a judge; the judge's endpoint is a real server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("autoevals", reason="pip install 'niceeval[judges]'")

from tests.journey.whole_runs import command, environment, project, run
from tests.unit.judge_server import Reply, chooses, judge_server, says

pytestmark = pytest.mark.slow

LABELS = """
ask: rubric
label: tone
criteria: It is polite.
scale: {polite: 1, curt: 0.5, rude: 0}
examples:
"""
CONFIG = """
from niceeval import JudgeConfig, define_config

config = define_config(judge=JudgeConfig("acme-judge", base_url="%s"%s))
"""
FILES = {
    ".env": "NICEEVAL_JUDGE_KEY=judge-key-4711\n",
    "adapters/kind.py": """
from niceeval.adapter import Message, Turn, complete_evidence_coverage, define_agent

async def send(input, ctx):
    return Turn(events=[Message(role="assistant", text="good day")])

def kind():
    return define_agent(name="kind", evidence_coverage=complete_evidence_coverage, send=send, version="1")
""",
    "experiments/one.py": """
from adapters.kind import kind
from niceeval import define_experiment

experiment = define_experiment(agent=kind())
""",
    "evals/polite_eval.py": """
from niceeval import define_eval

SCALE = {"polite": 1, "curt": 0.5, "rude": 0}

@define_eval()
async def polite(t):
    await t.send("hello")
    t.judge.rubric("tone", "It is polite.", SCALE).gate(1)
""",
}


def by_its_words(body: dict[str, Any]) -> Reply:
    """A judge that takes what says `good` for polite, and is swayed by an order that begins with the worst."""
    prompt = body["messages"][0]["content"]
    answer = prompt.split("[BEGIN ANSWER]")[1].split("[END ANSWER]")[0]
    if "nothing to say" in answer:
        return says("I would rather not.")
    if "sways" in answer:
        return chooses("polite" if '"polite", "curt"' in prompt else "rude")
    return chooses("polite" if "good" in answer else "rude", "it says good" if "good" in answer else "it does not")


def examples(*rows: tuple[str, str]) -> str:
    return LABELS + "".join(f'  - {{output: "{output}", label: {label}}}\n' for output, label in rows)


def niceeval(root: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    environ = {**environment(), "NICEEVAL_JUDGE_KEY": "judge-key-4711", **env}
    return subprocess.run([*command(), *words], cwd=root, env=environ, capture_output=True, text=True, timeout=120)


ROWS = [
    *[("good morning", "pass")] * 6,
    *[("go away", "fail")] * 5,
    ("so good", "fail"),
    ("certainly", "pass"),
    ("good, but sways", "pass"),
    ("nothing to say", "pass"),
]


def test_a_judge_is_tried_on_labelled_examples(tmp_path: Path) -> None:
    """The figures are those of its verdicts; repeats, the other order and what disagrees are told; it is kept."""
    with judge_server(by_its_words) as server:
        project(tmp_path, {**FILES, "niceeval_config.py": CONFIG % (server.url, "")})
        (tmp_path / "labels.yaml").write_text(examples(*ROWS), "utf-8")
        done = niceeval(tmp_path, "judge", "check", "labels.yaml", "--repeat", "2")
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[:2] == ["rubric(tone) · acme-judge · passes at 1", "15 examples, 9 of them labelled pass"]
    assert "agreement 86% (60% to 96%) 12 of 14" in lines
    assert "false pass 17% (3% to 56%) 1 of 6" in lines
    assert "false fail 12% (2% to 47%) 1 of 8" in lines
    assert "repeats 14 of 14 the same 2 times each" in lines
    assert "order 1 of 14 changed with the choices in reverse" in lines
    assert "no score 1" in lines
    assert any(line.startswith("#12 labelled fail, judged pass: so good (it says good)") for line in lines)
    assert any(line.startswith("#15 no score:") for line in lines)
    assert len(server.requests) == 45
    assert {request["authorization"] for request in server.requests} == {"Bearer judge-key-4711"}
    (kept,) = (tmp_path / "judges").iterdir()
    record = json.loads(kept.read_text("utf-8"))
    assert record["counts"] == {"truePass": 7, "falsePass": 1, "trueFail": 5, "falseFail": 1}
    assert "judge-key-4711" not in kept.read_text("utf-8") + done.stdout + done.stderr

    told = niceeval(tmp_path, "judge", "correct", f"judges/{kept.name}", "34/40")
    assert told.returncode == 0
    assert "as judged   85% (71% to 93%)   34/40" in told.stdout
    assert "corrected   96% (" in told.stdout


def test_what_is_asked_for_is_json_and_a_line(tmp_path: Path) -> None:
    """`--json` has every figure and every disagreement; `--min-kappa` makes a judge that agrees too little exit 1."""
    with judge_server(by_its_words) as server:
        (tmp_path / "labels.yaml").write_text(examples(*ROWS), "utf-8")
        words = ("judge", "check", "labels.yaml", "--base-url", server.url, "--model", "m", "--no-store", "--no-swap")
        done = niceeval(tmp_path, *words, "--json", "--min-kappa", "0.9")
    assert done.returncode == 1
    assert "kappa is 0.71; --min-kappa asks for 0.9" in done.stderr
    value = json.loads(done.stdout)
    assert [one["example"] for one in value["disagreements"]] == [12, 13]
    assert (value["order"], value["unjudged"], value["inputTokens"]) == (None, 1, 15 * 100)
    assert not (tmp_path / "judges").exists()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            Reply(status=401, body="{}"),
            "the judge acme-judge cannot be asked: the service did not accept the key (401)",
        ),
        (Reply(status=404, body="{}"), "the judge acme-judge cannot be asked: the service answered 404"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_asked_once(tmp_path: Path, answer: Reply, said: str) -> None:
    """Not once for every example: the error says what to correct."""
    with judge_server(answer) as server:
        project(tmp_path, {**FILES, "niceeval_config.py": CONFIG % (server.url, "")})
        (tmp_path / "labels.yaml").write_text(examples(*ROWS), "utf-8")
        done = niceeval(tmp_path, "judge", "check", "labels.yaml", "--no-swap")
    assert done.returncode == 1
    assert said in done.stderr
    assert "NICEEVAL_JUDGE_KEY" in done.stderr
    assert len(server.requests) == 1


def test_a_judge_that_nobody_names_is_an_error(tmp_path: Path) -> None:
    """There is no default model: the error says where one is named."""
    (tmp_path / "labels.yaml").write_text(examples(*ROWS), "utf-8")
    done = niceeval(tmp_path, "judge", "check", "labels.yaml")
    assert (done.returncode, "error[judge-none]" in done.stderr) == (1, True)
    assert "--model" in done.stderr


def test_a_gate_without_a_current_calibration_is_noticed(tmp_path: Path) -> None:
    """Said until the judge is calibrated, again when the question's words change; an error where it is required."""
    with judge_server(by_its_words) as server:
        project(tmp_path, {**FILES, "niceeval_config.py": CONFIG % (server.url, "")})
        (tmp_path / "labels.yaml").write_text(examples(*ROWS), "utf-8")

        first = run(tmp_path, "one", "--force")
        said = first.diagnostics("polite").get("judge-uncalibrated", "")
        assert said == "judge.rubric(tone) gates by acme-judge, and it was never calibrated"
        assert first.result("polite")["outcome"] == "passed"

        assert niceeval(tmp_path, "judge", "check", "labels.yaml").returncode == 0
        again = run(tmp_path, "one", "--force")
        assert "judge-uncalibrated" not in again.diagnostics("polite")
        lines = niceeval(tmp_path, "show").stdout.splitlines()
        assert "  one  judge.rubric(tone)  1/1 passed (100%)  corrected 100% (0% to 100%)" in lines
        (judged,) = json.loads(niceeval(tmp_path, "show", "--json").stdout)["judged"]
        assert (judged["passed"], judged["total"], judged["observed"]["value"]) == (1, 1, 1.0)
        assert judged["corrected"]["low"] < judged["observed"]["low"]

        eval_file = tmp_path / "evals" / "polite_eval.py"
        eval_file.write_text(eval_file.read_text("utf-8").replace("It is polite.", "It is kind."), "utf-8")
        stale = run(tmp_path, "one", "--force")
        assert "its words have changed since it was calibrated" in stale.diagnostics("polite")["judge-uncalibrated"]

        required = CONFIG % (server.url, ", require_calibration=True")
        (tmp_path / "niceeval_config.py").write_text(required, "utf-8")
        refused = run(tmp_path, "one")
        assert refused.result("polite")["outcome"] == "errored"
        assert refused.error("polite")[:2] == ("judge-uncalibrated", "judge")
        assert "niceeval judge check" in refused.err + refused.out
