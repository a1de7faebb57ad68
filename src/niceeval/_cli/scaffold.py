"""The files that `niceeval init` writes, word for word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CONFIG = '''\
"""Defaults of this project; experiments and the command line may say otherwise."""

from niceeval import define_config

config = define_config(timeout=60)
'''

_EVAL = '''\
"""What a good answer is. An eval knows no agent: experiments/ says which one is asked."""

from niceeval import EvalContext, define_eval
from niceeval.expect import includes


@define_eval(description="An order is looked up, not made up", tags=["smoke"])
async def hello(t: EvalContext) -> None:
    turn = await t.send("Where is order 1042?")
    turn.succeeded()
    turn.called_tool("lookup_order", input={"order": "1042"}, count=1)
    t.check(turn.message, includes("on its way"))
'''

_EXPERIMENT = '''\
"""How to run: one configuration. Its id is `local`, so `niceeval exp local` runs it."""

from adapters.order_bot import order_bot
from niceeval import define_experiment

experiment = define_experiment(description="the bot in this folder", agent=order_bot())
'''

_ADAPTER = '''\
"""A stand-in for your agent: rules instead of a model, so that the first run needs no key and no network.

Replace the body of `send` with the call to your own agent, and say in COVERAGE what it shows of its work.
"""

import re

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Agent,
    AgentContext,
    Coverage,
    EvidenceCoverage,
    Message,
    Turn,
    TurnInput,
    define_agent,
)

ORDERS = {"1042": "on its way", "1043": "delivered"}

COVERAGE = EvidenceCoverage.complete_except(
    usage=Coverage.unavailable("rules use no tokens"),
    data=Coverage.unavailable("the bot answers in sentences only"),
)


def order_bot() -> Agent:
    async def send(input: TurnInput, ctx: AgentContext) -> Turn:
        found = re.search(r"[0-9]{4}", input.text)
        if found is None:
            return Turn(events=[Message(role="assistant", text="Which order, please?")])
        order = found.group()
        state = ORDERS.get(order, "unknown")
        return Turn(
            events=[
                ActionCalled(call_id="call_1", name="lookup_order", input={"order": order}),
                ActionResult(call_id="call_1", output={"state": state}, status="completed"),
                Message(role="assistant", text=f"Order {order} is {state}."),
            ]
        )

    return define_agent(name="order-bot", evidence_coverage=COVERAGE, send=send)
'''

FILES: Final[Mapping[str, str]] = {
    "niceeval_config.py": _CONFIG,
    "evals/hello_eval.py": _EVAL,
    "experiments/local.py": _EXPERIMENT,
    "adapters/order_bot.py": _ADAPTER,
}
"""A first project: path from the root -> content."""

IGNORED: Final = (".niceeval/", ".env")
"""What belongs in no repository: results, and credentials."""

BEGIN: Final = "<!-- niceeval:begin (managed by `niceeval init`; edits between the marks are replaced) -->"
END: Final = "<!-- niceeval:end -->"

BLOCK: Final = f"""\
{BEGIN}
## Evals (niceeval)

- `evals/**/*_eval.py`: what to check. `@define_eval(...)` above `async def name(t: EvalContext)`; its path is its id.
- `experiments/**/*.py`: how to run. `experiment = define_experiment(agent=..., runs=...)`; its path is its id.
- `adapters/`: how the agent is called. `send(input, ctx)` returns a `Turn` with the events that really happened.
- Run: `niceeval exp EXPERIMENT [EVAL-PREFIX ...]`; look closer: `niceeval show @LOCATOR`; list: `niceeval list`,
  `niceeval exp list`. Exit code 0 passed, 1 not, 2 niceeval broke, 130 interrupted.
- `failed`: the agent did it wrong. `errored`: no conclusion could be drawn; fix the set-up, not the assertion.
- Never loosen an assertion, or claim evidence coverage that the adapter does not have, to make a run pass.
- Results are plain JSON in `.niceeval/`; do not commit them.
{END}
"""
"""The managed block of AGENTS.md and CLAUDE.md."""
