"""What a plan makes of sandboxes: which one holds, how many attempts run at once, and what results depend on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import niceeval.sandbox
from niceeval._base.errors import ProjectError
from niceeval._plan.carry import with_carry
from niceeval._plan.identity import changes
from niceeval._plan.plan import RunPlan, make_plan
from niceeval.sandbox import Mount, docker_sandbox
from tests.unit.project_files import EVAL, load_files, write_files

CONFIG = """
from niceeval import define_config
from niceeval.sandbox import local_sandbox

config = define_config({arguments})
"""
BOXED = """
from adapters.bots import bot, boxed
from adapters.boxes import make
from niceeval import define_experiment
from niceeval.sandbox import define_sandbox, docker_sandbox, local_sandbox

experiment = define_experiment(agent={agent}, {arguments})
"""
BOXES = """
def make(word):
    async def create(*, timeout, runtime):
        raise NotImplementedError(word)
    return create
"""


def planned(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    *,
    agent: str = "boxed()",
    config: str = "",
    boxes: str = BOXES,
    concurrency: int | None = None,
) -> RunPlan:
    """The plan of one eval under one experiment."""
    files = {
        "evals/one_eval.py": EVAL,
        "adapters/boxes.py": boxes,
        "experiments/local.py": BOXED.format(agent=agent, arguments=arguments),
        "niceeval_config.py": CONFIG.format(arguments=config),
    }
    root.mkdir(exist_ok=True)
    project = load_files(root, monkeypatch, files)
    assert project.problems == ()
    return with_carry(make_plan(project, max_concurrency=concurrency), root / ".niceeval", force=False)


def parts(plan: RunPlan) -> dict[str, str]:
    """What the only identity depends on."""
    (identity,) = plan.identities.values()
    return dict(identity.parts)


@pytest.mark.parametrize(
    ("agent", "arguments", "config", "shown"),
    [
        ("boxed()", "sandbox=docker_sandbox(image='a')", "", "docker a"),
        ("boxed()", "sandbox=docker_sandbox(image='a')", "sandbox=local_sandbox()", "docker a"),
        ("boxed()", "", "sandbox=local_sandbox()", "local"),
        ("bot()", "sandbox=docker_sandbox(image='a')", "sandbox=local_sandbox()", None),
    ],
)
def test_which_sandbox_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, arguments: str, config: str, shown: str | None
) -> None:
    """The experiment's before the config's; a direct agent has none, and does not depend on it."""
    plan = planned(tmp_path, monkeypatch, arguments, agent=agent, config=config)
    (experiment,) = plan.experiments
    assert (None if experiment.sandbox is None else experiment.sandbox.shown) == shown
    assert ("sandbox" in parts(plan)) is (shown is not None)


def test_without_a_sandbox_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sandbox-not-set`, at the experiment."""
    plan = planned(tmp_path, monkeypatch, "")
    assert plan.attempts == ()
    assert [problem.code for problem in plan.problems] == ["sandbox-not-set"]


@pytest.mark.parametrize("value", ["'docker'", "local_sandbox", "object()"])
def test_a_sandbox_is_made_by_a_factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Anything else is an error at the argument."""
    experiment = BOXED.format(agent="boxed()", arguments=f"sandbox={value}")
    files = {"evals/one_eval.py": EVAL, "adapters/boxes.py": BOXES, "experiments/local.py": experiment}
    (problem,) = load_files(tmp_path, monkeypatch, files).problems
    assert isinstance(problem, ProjectError)
    assert (problem.code, problem.fields["argument"]) == ("bad-argument", "sandbox")


IMAGE = "docker_sandbox(image='a', {})"
UNUSABLE = {
    "env": [
        "{'A': 'x\\0'}",
        "{'A': '\\udc80'}",
        "{'A=B': 'x'}",
        "{'': 'x'}",
        "{'A\\0': 'x'}",
        "{'\\udc80': 5}",
        "{5: 'x'}",
    ],
    "build_args": ["{'A': 'x\\0'}", "{'': 'x'}"],
    "ca_bundle": ["5", "b'a'", "''", "'a\\0'", "'\\udc80'"],
    "network": ["'a\\nb'", "'\\udc80'", "'a b'", "'../x'", "5"],
    "platform": ["'\\udc80'", "'linux amd64'", "'a\\nb'"],
    "workdir": ["'/a\\udc80'", "'/a\\0'", "'/a\\nb'", "'a'"],
    "host": ["'unix:///a\\0'", "'\\udc80'"],
    "capabilities": ["['A\\0']", "['\\udc80']"],
    "cpus": ["10**30", "10**5000", "0", "1e-12", "float('nan')", "True", "'2'"],
    "pids": ["10**30", "10**5000", "0", "None", "'2'"],
    "memory": ["'9' * 5000", "'99999999999g'", "'1k'", "'\\u0663g'"],
    "user": ["'99999999999:1'", "'1:99999999999'", "'9' * 5000", "'\\u0663'", "'root'"],
    "mounts": ["[Mount(source=5, target='/a')]", "[Mount(source='a', target=5)]", "[Mount(source='a', target='/\\0')]"],
    "warm_pool": ["-1", "'2'"],
}
"""Arguments of `docker_sandbox` that no engine, or no program, could make anything of."""
ELSEWHERE = [
    ("docker_sandbox(image='a\\0')", "image"),
    ("docker_sandbox(image='\\udc80')", "image"),
    ("docker_sandbox(image='a b')", "image"),
    ("docker_sandbox(dockerfile=5)", "dockerfile"),
    ("docker_sandbox(dockerfile='a\\0')", "dockerfile"),
    ("local_sandbox(env={'A': 'x\\0'})", "env"),
    ("local_sandbox(env={'A=': 'x'})", "env"),
    ("e2b_sandbox(template='a\\nb')", "template"),
    ("e2b_sandbox(env={'': 'x'})", "env"),
    ("vercel_sandbox(snapshot_id='\\udc80')", "snapshot_id"),
    ("daytona_sandbox(image='a\\0')", "image"),
    ("modal_sandbox(cpu=10**30)", "cpu"),
    ("modal_sandbox(memory=10**30)", "memory"),
    ("define_sandbox(name='a\\nb', create=print)", "name"),
]


@pytest.mark.parametrize(
    ("call", "argument"),
    [*((IMAGE.format(f"{name}={value}"), name) for name, values in UNUSABLE.items() for value in values), *ELSEWHERE],
)
def test_what_a_factory_cannot_use_is_said_at_its_line(call: str, argument: str) -> None:
    """`bad-argument` at the argument, with a next step, in text that any terminal can be given."""
    code = compile(f"\n{call}", __file__, "eval")
    with pytest.raises(ProjectError) as caught:
        eval(code, {name: getattr(niceeval.sandbox, name) for name in niceeval.sandbox.__all__})
    error = caught.value
    assert (error.code, error.fields["argument"]) == ("bad-argument", argument)
    assert error.fields["fix"]
    assert error.place is not None
    assert (Path(error.place.file).resolve(), error.place.line) == (Path(__file__).resolve(), 2)
    str(error).encode()


def test_what_a_factory_can_use_is_kept() -> None:
    """Lines in a variable's value, a share of a CPU, a path object, and the largest numbers there are."""
    spec = docker_sandbox(
        image="a",
        env={"PEM": "one\ntwo", "a.b-c": ""},
        ca_bundle=Path("/ca.pem"),
        mounts=[Mount(source="/data", target="/data")],
        cpus=0.5,
        pids=4_194_304,
        user=f"{2**31 - 1}",
        network="my_net-1.x",
    )
    options = spec.options
    assert options["env"] == {"PEM": "one\ntwo", "a.b-c": ""}
    assert (options["ca_bundle"], options["cpus"], options["pids"]) == ("/ca.pem", 0.5, 4_194_304)
    assert (options["user"], options["network"]) == ("2147483647:2147483647", "my_net-1.x")
    assert options["mounts"] == [{"source": "/data", "target": "/data"}]


LOCAL = "sandbox=local_sandbox()"


@pytest.mark.parametrize(
    ("arguments", "config", "given", "own", "whole"),
    [
        (LOCAL, "", None, 4, 10),
        (f"{LOCAL}, max_concurrency=7", "", None, 7, 10),
        (LOCAL, "max_concurrency=3", None, None, 3),
        (LOCAL, "", 6, None, 6),
        ("sandbox=define_sandbox(name='mine', create=make('a'), recommended_concurrency=25)", "", None, 25, 25),
    ],
)
def test_how_many_attempts_run_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    config: str,
    given: int | None,
    own: int | None,
    whole: int,
) -> None:
    """What the backend recommends holds for its experiment where nobody says otherwise."""
    plan = planned(tmp_path, monkeypatch, arguments, config=config, concurrency=given)
    assert (plan.experiments[0].max_concurrency, plan.concurrency) == (own, whole)


MINE = "sandbox=define_sandbox(name='mine', create=make('a'))"


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("sandbox=docker_sandbox(image='a')", "sandbox=docker_sandbox(image='a', warm_pool=2)", []),
        ("sandbox=docker_sandbox(image='a')", "sandbox=docker_sandbox(image='a'), reuse_sandboxes=True", []),
        (
            "sandbox=docker_sandbox(image='a')",
            "sandbox=docker_sandbox(image='b')",
            ['sandbox.image: "a" -> "b"'],
        ),
        ("sandbox=local_sandbox(env={'K': 'x'})", "sandbox=local_sandbox(env={'K': 'y'})", ["sandbox.env.K"]),
        (MINE, "sandbox=define_sandbox(name='mine', create=make('b'))", ["experiment source: experiments/local.py"]),
    ],
)
def test_results_depend_on_each_option_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, changed: list[str]
) -> None:
    """Not on how many are started ahead; on values of `env` without showing them."""
    old = parts(planned(tmp_path, monkeypatch, before))
    new = parts(planned(tmp_path, monkeypatch, after))
    assert changes(old, new) == changed
    assert "'x'" not in str(old)


def test_results_depend_on_the_source_of_a_users_own_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of `create` counts, and what it imports."""
    old = parts(planned(tmp_path, monkeypatch, MINE))
    write_files(tmp_path, {"adapters/deeper.py": "WORD = 1\n"})
    deeper = f"from adapters.deeper import WORD\n{BOXES}"
    between = parts(planned(tmp_path, monkeypatch, MINE, boxes=deeper))
    assert changes(old, between) == ["adapter source: adapters/boxes.py", "adapter source: adapters/deeper.py (added)"]


def test_results_depend_on_what_the_config_makes_its_sandbox_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The config's own source counts where its sandbox is a user's own."""
    made = "from adapters.boxes import make\nfrom niceeval.sandbox import define_sandbox\n"
    texts = [f"{made}sandbox = define_sandbox(name='mine', create=make('{word}'))\n" for word in "ab"]
    seen = []
    for text in texts:
        write_files(tmp_path, {"shared_box.py": text})
        monkeypatch.delitem(sys.modules, "shared_box", raising=False)
        config = "sandbox=__import__('shared_box').sandbox"
        seen.append(parts(planned(tmp_path, monkeypatch, "", config=config)))
    assert "sandbox source: niceeval_config.py" in seen[0]
    assert "sandbox source: adapters/boxes.py" not in seen[0]
    assert changes(*seen) == ["sandbox source: shared_box.py"]
