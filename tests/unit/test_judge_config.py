"""Which model judges: what may be configured, which of several places counts, and what of it a result depends on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from niceeval import JudgeConfig, define_config, define_eval, define_experiment
from niceeval._base.errors import ProjectError
from niceeval._discover.specs import judge_of
from niceeval._judging.outcome import JudgeProblem
from niceeval._judging.resolving import DEFAULT_BASE_URL, chosen, resolve
from niceeval._model.result import StoredIdentity
from niceeval._plan.carry import with_carry
from niceeval._plan.identity import Identity, changes
from niceeval._plan.plan import make_plan
from tests.unit.drive_harness import agent
from tests.unit.project_files import AGENT, load_files
from tests.unit.result_builders import a_result
from tests.unit.stored_runs import a_stored_run

LOCAL = "http://127.0.0.1:8000/v1"

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("model", {"model": ""}),
    ("model", {"model": None}),
    ("model", {"model": 3}),
    ("base_url", {"base_url": "api.example.com"}),
    ("base_url", {"base_url": "ftp://example.com"}),
    ("base_url", {"base_url": "https://"}),
    ("base_url", {"base_url": "https://[::1"}),
    ("base_url", {"base_url": "https://me:pw-3f9a77c1@example.com/v1"}),
    ("api_key_env", {"api_key_env": "sk-3f9a77c1e2-value"}),
    ("timeout", {"timeout": 0}),
    ("timeout", {"timeout": None}),
    ("timeout", {"timeout": float("inf")}),
    ("require_calibration", {"require_calibration": 1}),
    ("max_concurrency", {"max_concurrency": 0}),
    ("max_concurrency", {"max_concurrency": None}),
]


@pytest.mark.parametrize(("argument", "given"), WRONG)
def test_a_configuration_that_cannot_be_is_an_error_at_its_line(argument: str, given: dict[str, Any]) -> None:
    """The error names the argument and this file; a value that may be a secret is not repeated."""
    with pytest.raises(ProjectError) as caught:
        JudgeConfig(**{"model": "acme-judge", **given})
    assert (caught.value.code, caught.value.fields["argument"]) == ("bad-argument", argument)
    assert caught.value.place is not None
    assert caught.value.place.file.endswith("test_judge_config.py")
    assert "3f9a77c1" not in f"{caught.value} {caught.value.next_step()}"


def _experiment(**more: Any) -> object:
    return define_experiment(agent=agent().agent, **more)


@pytest.mark.parametrize("define", [define_config, define_eval, _experiment])
def test_judge_takes_a_configuration(define: Callable[..., object]) -> None:
    """A model's name is no JudgeConfig."""
    with pytest.raises(ProjectError) as caught:
        define(judge="acme-judge")
    assert caught.value.fields["argument"] == "judge"


PROJECT = {
    "adapters/bots.py": AGENT,
    "niceeval_config.py": """
        from niceeval import JudgeConfig, define_config
        config = define_config(judge=JudgeConfig("shared", api_key_env="SHARED_JUDGE"))
        """,
    "experiments/a.py": """
        from adapters.bots import bot
        from niceeval import JudgeConfig, define_experiment
        experiment = define_experiment(agent=bot())
        """,
    "experiments/b.py": """
        from adapters.bots import bot
        from niceeval import JudgeConfig, define_experiment
        base = define_experiment(agent=bot(), judge=JudgeConfig("first", api_key_env="EXPERIMENT_JUDGE"))
        other = base.replace(judge=JudgeConfig("second"))
        experiments = {"own": base, "other": other, "none": base.replace(judge=None)}
        """,
    "evals/one_eval.py": """
        from niceeval import JudgeConfig, define_eval

        @define_eval()
        async def plain(t):
            pass

        @define_eval(judge=JudgeConfig("mine", api_key_env="EVAL_JUDGE"))
        async def special(t):
            pass
        """,
}


def test_the_nearest_place_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An eval's judge goes before its experiment's, and that before the project's; a call's own model before all."""
    project = load_files(tmp_path, monkeypatch, PROJECT)
    assert project.problems == ()
    found = {
        (spec.case or spec.id.rpartition("/")[2], experiment.id): judge_of(spec, experiment, project.config.judge)
        for spec in project.evals
        for experiment in project.experiments
    }
    models = {where: judge.model for where, judge in found.items() if judge is not None}
    wanted = {"a": "shared", "b/own": "first", "b/other": "second", "b/none": "shared"}
    assert models == {
        **{("plain", experiment): model for experiment, model in wanted.items()},
        **{("special", experiment): "mine" for experiment in wanted},
    }
    judge = JudgeConfig("acme-judge", LOCAL, timeout=5)
    assert chosen(None, judge, model="own") == JudgeConfig("own", LOCAL, timeout=5)
    assert chosen(None, None, model="own") == JudgeConfig("own")
    assert chosen(None, None) is None


def test_the_keys_of_judges_are_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a variable holds that a judge names is hidden wherever it turns up, whatever the variable is called."""
    for name in ("SHARED_JUDGE", "EXPERIMENT_JUDGE", "EVAL_JUDGE", "NICEEVAL_JUDGE_KEY"):
        monkeypatch.setenv(name, f"value-of-{name}")
    project = load_files(tmp_path, monkeypatch, PROJECT)
    wanted = {f"value-of-{name}" for name in ("SHARED_JUDGE", "EXPERIMENT_JUDGE", "EVAL_JUDGE", "NICEEVAL_JUDGE_KEY")}
    assert wanted <= project.secrets


def test_the_key_comes_from_one_variable() -> None:
    """`api_key_env`'s variable, else NICEEVAL_JUDGE_KEY; only an endpoint on this machine may do without."""
    environ = {"NICEEVAL_JUDGE_KEY": " common-key ", "ACME_KEY": "acme-key", "EMPTY": ""}
    assert resolve(JudgeConfig("m"), environ).api_key == "common-key"
    assert resolve(JudgeConfig("m"), environ).base_url == DEFAULT_BASE_URL
    assert resolve(JudgeConfig("m", api_key_env="ACME_KEY"), environ).api_key == "acme-key"
    for local in (LOCAL, "http://localhost:1/v1", "http://[::1]:1/v1"):
        assert resolve(JudgeConfig("m", local), {}).api_key
    refused: list[tuple[JudgeConfig | None, str]] = [
        (None, "no judge"),
        (JudgeConfig("m"), "NICEEVAL_JUDGE_KEY"),
        (JudgeConfig("m", "https://judge.example.com/v1"), "NICEEVAL_JUDGE_KEY"),
        (JudgeConfig("m", "http://localhost.example.com/v1"), "NICEEVAL_JUDGE_KEY"),
        (JudgeConfig("m", LOCAL, api_key_env="EMPTY"), "EMPTY"),
    ]
    for config, words in refused:
        with pytest.raises(JudgeProblem, match=words) as caught:
            resolve(config, {"EMPTY": ""})
        assert caught.value.code == "judge-not-configured"


def test_an_address_may_be_found_when_it_is_needed() -> None:
    """`base_url` may be a function; what it raises, or gives that is no address, is a judge that is not configured."""

    def fails() -> str:
        raise RuntimeError("not started")

    assert resolve(JudgeConfig("m", lambda: LOCAL), {}).base_url == LOCAL
    for function, words in ((fails, "not started"), (lambda: "nowhere", "http or https")):
        with pytest.raises(JudgeProblem, match=words) as caught:
            resolve(JudgeConfig("m", function), {})
        assert caught.value.code == "judge-not-configured"


def test_a_result_depends_on_the_model_that_judges_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another model or endpoint is another identity, named as such; another key, limit or patience is not."""

    def identity(arguments: str, name: str) -> Identity:
        experiment = f"experiment = define_experiment(agent=bot(), judge=JudgeConfig({arguments}))"
        head = "from adapters.bots import bot\nfrom niceeval import JudgeConfig, define_experiment\n\n"
        # The same path, so that nothing but the judge differs.
        root = tmp_path / name
        files = {key: text for key, text in PROJECT.items() if not key.startswith("experiments/")}
        project = load_files(root, monkeypatch, {**files, "experiments/a.py": head + experiment})
        assert project.problems == ()
        plan = with_carry(make_plan(project), root / ".niceeval", force=False)
        return plan.identities["a", "one/plain"]

    base = identity('"acme-judge"', "base")
    other = identity('"other-judge"', "other")
    placed = identity(f'"acme-judge", "{LOCAL}"', "placed")
    patient = identity('"acme-judge", timeout=5, max_concurrency=2, api_key_env="ACME"', "patient")
    assert changes(base.parts, other.parts) == ['judge: "acme-judge" -> "other-judge"']
    assert changes(base.parts, placed.parts) == [f'judge.base_url: null -> "{LOCAL}"']
    assert base.fingerprint == patient.fingerprint


@pytest.mark.parametrize(("phases", "carried"), [({"judge": 65_000}, True), ({"eval": 65_000}, False)])
def test_a_slow_judge_makes_no_pass_too_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phases: dict[str, int], carried: bool
) -> None:
    """A pass is carried where the attempt itself fits into the timeout, however long its judging took."""
    files = {name: text for name, text in PROJECT.items() if name != "experiments/b.py"}
    project = load_files(tmp_path, monkeypatch, files)
    planned = make_plan(project, eval_prefixes=["one/plain"], timeout=60)
    identity = with_carry(planned, tmp_path / ".niceeval", force=False).identities["a", "one/plain"]
    stored = a_result(
        eval_id="one/plain",
        experiment_id="a",
        duration_ms=70_000,
        phases=phases,
        fingerprint=identity.fingerprint,
        identity=StoredIdentity(version=1, parts=dict(identity.parts), reads={}),
    )
    a_stored_run(tmp_path, [stored])
    decided = with_carry(planned, tmp_path / ".niceeval", force=False).decision(planned.attempts[0])
    assert decided is not None
    assert (decided.carried is not None) == carried, decided.reason
