from typing import TypedDict

from niceeval import EvalContext, define_eval
from niceeval.expect import command_succeeded, includes


class Broken(TypedDict):
    """A project whose tests fail: its folder, the module that is wrong, and what its repair holds."""

    folder: str
    module: str
    repair: str


CASES: dict[str, Broken] = {
    "median": {"folder": "median", "module": "stats.py", "repair": "/ 2"},
    "slugs": {"folder": "slugs", "module": "slugs.py", "repair": "findall"},
}


@define_eval(description=lambda case: f"the project {case['folder']} is repaired", cases=CASES)
async def fix(t: EvalContext, case: Broken) -> None:
    await t.sandbox.upload_directory(f"projects/{case['folder']}")
    turn = await t.send("The tests of this project fail. Fix the code, and leave the tests as they are.")
    turn.succeeded()
    turn.called_tool("shell", input={"command": "python3 -m unittest"}, count=2)

    # Only what changed during the send is the agent's: the upload above is not.
    t.sandbox.file_changed(case["module"])
    t.sandbox.not_in_diff("test_")
    t.check(t.sandbox.diff.get(case["module"]), includes(case["repair"]))

    # The agent never saw these tests.
    await t.sandbox.upload_directory(f"hidden/{case['folder']}")
    hidden = await t.sandbox.run_command("python3", ["-m", "unittest", "hidden_tests"], timeout=60)
    t.check(hidden, command_succeeded())
