"""A project in which every agent and every eval misbehaves in its own way, each beside innocent ones."""

from __future__ import annotations

AGENTS = """
import asyncio
import math
import sys
import threading
import time

from niceeval.adapter import ActionCalled, ActionResult, Message, Turn, complete_evidence_coverage, define_agent

def called(input=None, output=1):
    call = ActionCalled(call_id="c", name="f", input={} if input is None else input)
    return Turn(events=[call, ActionResult(call_id="c", output=output, status="completed")])

def says(text):
    return Message(role="assistant", text=text)

class Unsayable(Exception):
    def __str__(self):
        raise SystemExit("no text")

class Odd(BaseException):
    pass

async def good(ctx):
    await asyncio.sleep(0.01)
    return Turn(events=[says("hello")])

async def raises(ctx):
    raise ValueError("the agent is down")

async def unsayable(ctx):
    raise Unsayable

async def odd(ctx):
    raise Odd("not an Exception")

async def leaves(ctx):
    sys.exit(3)

async def interrupts(ctx):
    raise KeyboardInterrupt

async def cancels_itself(ctx):
    raise asyncio.CancelledError

async def own_timeout(ctx):
    async with asyncio.timeout(0.01):
        await asyncio.sleep(10)

async def none(ctx):
    return None

async def mapping(ctx):
    return {"status": "completed"}

async def text(ctx):
    return "hello"

async def wrong_status(ctx):
    return Turn(status="done")

async def waits_for_nothing(ctx):
    return Turn(status="waiting")

async def wrong_event(ctx):
    return Turn(events=[42])

async def hangs(ctx):
    await asyncio.sleep(1000)

async def swallows(ctx):
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            continue

async def swallows_and_spins(ctx):
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        while True:
            pass

async def blocks_shortly(ctx):
    time.sleep(1.6)  # BLOCKS SHORTLY
    return Turn(events=[says("slept")])

async def blocks(ctx):
    time.sleep(1000)

async def spins(ctx):
    while True:
        pass

async def spins_in_a_callback(ctx):
    def spin():
        while True:
            pass
    asyncio.get_running_loop().call_soon(spin)
    await asyncio.sleep(1000)

async def floods(ctx):
    return Turn(events=[says("x" * 100_000) for _ in range(1_000)])

async def floods_lazily(ctx):
    def endless():
        while True:
            yield says("more")
    return Turn(events=endless())

async def surrogates(ctx):
    turn = called({"k\\udfff": "\\ud83d"}, "\\udc00")
    return Turn(events=[says("\\ud800 half"), *turn.events])

async def not_a_number(ctx):
    return called({"x": math.nan, "y": math.inf}, -math.inf)

async def cyclic(ctx):
    value = {}
    value["me"] = [value]
    return called(value)

async def nested(ctx):
    value = []
    for _ in range(10_000):
        value = [value]
    return called({"v": value})

async def reuses_a_call_id(ctx):
    return Turn(events=[ActionCalled(call_id="c", name="g", input={}), *called().events])

async def result_without_call(ctx):
    return Turn(events=[ActionResult(call_id="never", output=1, status="completed")])

SHARED = [{"type": "message", "role": "assistant", "text": "first"}]

async def mutates(ctx):
    async def later():
        await asyncio.sleep(0.01)
        SHARED[0]["text"] = object()
        SHARED.append("garbage")
    ctx.session.capture("s")
    mutates.task = asyncio.create_task(later())
    return Turn(events=SHARED)

async def exits_in_the_background(ctx):
    async def leave():
        sys.exit(4)
    exits_in_the_background.task = asyncio.create_task(leave())
    await asyncio.sleep(0.05)
    return Turn(events=[says("still here")])

async def odd_logs(ctx):
    for value in (None, 3, b"bytes", "\\ud800", "x" * 10_000_000, object()):
        ctx.log(value)
    ctx.progress("half", current="many", total=None)
    ctx.diagnostic(None, "fatal", object(), data={1: {2}, "n": math.nan})
    return Turn(events=[says("logged")])

def plain_hangs(ctx):
    time.sleep(1000)

def plain_leaves(ctx):
    sys.exit(3)

def plain_spins(ctx):
    while True:
        pass

def plain_holds_the_process(ctx):
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return Turn(events=[says("a thread stays")])

async def send(input, ctx):
    return await globals()[input.text](ctx)

def plain_send(input, ctx):
    return globals()[input.text](ctx)

async def setup(ctx):
    await hook("setup", ctx.eval_id.rpartition("/")[2])

async def teardown(ctx):
    await hook("teardown", ctx.eval_id.rpartition("/")[2])

async def hook(when, kind):
    if not kind.startswith(when):
        return
    what = kind.partition("-")[2]
    if what == "raises":
        raise ValueError(f"{when} is broken")
    if what == "exits":
        sys.exit(5)
    if what == "cancels":
        raise asyncio.CancelledError
    if what == "hangs":
        await asyncio.sleep(1000)
    if what == "swallows":
        await swallows(None)
    if what == "blocks":
        time.sleep(1000)

def bot(name="bot", send=send, **hooks):
    return define_agent(name=name, evidence_coverage=complete_evidence_coverage, send=send, **hooks)

def hooked():
    return bot("hooked", setup=setup, teardown=teardown)
"""

EXPERIMENT = """
from adapters.faulty import bot, hooked, plain_send
from niceeval import define_experiment

experiment = define_experiment({arguments})
"""

SENDS = """
from niceeval import define_eval

@define_eval(timeout=%s, cases={name: name for name in %s})
async def sends(t, name):
    turn = await t.send(name)
    turn.succeeded()
    await t.send("good")
"""

INNOCENT = """
import asyncio
from niceeval import define_eval
from niceeval.expect import equals

@define_eval(timeout=2.0, cases={str(number): number for number in range(6)})
async def innocent(t, number):
    for _ in range(4):
        turn = await t.send("good")
        t.check(turn.message, equals("hello"))
        await asyncio.sleep(0.05)
"""

AUTHORS = """
import asyncio
import sys
from niceeval import define_eval
from niceeval.expect import equals

@define_eval(timeout=1.0)
async def loops(t):
    while True:
        await asyncio.sleep(0)

@define_eval(timeout=1.0)
async def spins(t):
    while True:
        pass

@define_eval(timeout=1.0)
async def checks_for_ever(t):
    while True:
        t.check(1, equals(1))

@define_eval(timeout=1.0)
async def catches_and_checks_for_ever(t):
    while True:
        try:
            t.check(1, equals(1))
        except Exception:
            pass

@define_eval(timeout=1.0)
async def swallows(t):
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            continue

@define_eval(timeout=1.0)
async def swallows_and_sends(t):
    while True:
        try:
            await t.send("good")
        except BaseException:
            continue

@define_eval()
async def leaves_tasks(t):
    async def background():
        while True:
            await asyncio.sleep(0.01)
    for _ in range(20):
        asyncio.create_task(background())
    (await t.send("good")).succeeded()

@define_eval()
async def leaves_a_stubborn_task(t):
    async def background():
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                pass
    asyncio.create_task(background())
    (await t.send("good")).succeeded()

@define_eval()
async def leaves_a_send(t):
    asyncio.create_task(t.send("hangs").__await__.__self__)
    await asyncio.sleep(0.05)

@define_eval()
async def exits(t):
    sys.exit(7)

@define_eval()
async def exits_in_a_group(t):
    async def leave():
        sys.exit(7)
    async with asyncio.TaskGroup() as group:
        group.create_task(leave())

@define_eval()
async def exits_at_the_end(t):
    await t.send("good")
    t.events_satisfy("exits", lambda events: sys.exit(7))

def spin(events):
    while True:
        pass

@define_eval()
async def spins_at_the_end(t):
    await t.send("good")
    t.events_satisfy("spins", spin)

@define_eval()
async def cancels_itself(t):
    raise asyncio.CancelledError
"""

LOOP = [
    "raises",
    "unsayable",
    "odd",
    "leaves",
    "interrupts",
    "cancels_itself",
    "own_timeout",
    "none",
    "mapping",
    "text",
    "wrong_status",
    "waits_for_nothing",
    "wrong_event",
    "hangs",
    "swallows",
    "swallows_and_spins",
    "blocks",
    "spins",
    "spins_in_a_callback",
    "floods",
    "floods_lazily",
    "surrogates",
    "not_a_number",
    "cyclic",
    "nested",
    "reuses_a_call_id",
    "result_without_call",
    "mutates",
    "exits_in_the_background",
    "odd_logs",
]
PLAIN = [
    "plain_hangs",
    "plain_leaves",
    "plain_spins",
    "plain_holds_the_process",
    "raises",
    "cancels_itself",
    "none",
    "swallows",
    "hangs",
]
HOOKS = [
    f"{when}-{what}"
    for when in ("setup", "teardown")
    for what in ("raises", "exits", "cancels", "hangs", "swallows", "blocks")
]

HOOK_CASES = """
from niceeval import define_eval

@define_eval(timeout=1.0, cases={name: name for name in %s})
async def hooks(t, name):
    (await t.send("good")).succeeded()
"""


def experiment(**arguments: str) -> str:
    """An experiment file; each argument is Python source."""
    return EXPERIMENT.format(arguments=", ".join(f"{name}={value}" for name, value in arguments.items()))


FILES = {
    "adapters/faulty.py": AGENTS,
    "evals/loop_eval.py": SENDS % (1.0, LOOP),
    "evals/patient_eval.py": SENDS % (30.0, ["blocks_shortly"]),
    "evals/plain_eval.py": SENDS % (1.0, PLAIN),
    "evals/hooks_eval.py": HOOK_CASES % HOOKS,
    "evals/innocent_eval.py": INNOCENT,
    "evals/authors_eval.py": AUTHORS,
    "experiments/authors.py": experiment(agent="bot()", evals='["authors", "innocent"]'),
    "experiments/hooks.py": experiment(agent="hooked()", evals='["hooks", "innocent"]'),
    "experiments/loop.py": experiment(agent="bot()", evals='["loop", "patient", "innocent"]'),
    "experiments/plain.py": experiment(agent="bot(send=plain_send)", evals='["plain", "innocent"]'),
}
