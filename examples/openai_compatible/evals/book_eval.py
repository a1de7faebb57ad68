from dataclasses import dataclass

from niceeval import EvalContext, define_eval
from niceeval.expect import equals, includes


@dataclass
class Books:
    books: list[str]


@define_eval(description="A book is looked up, and its day is said")
async def due(t: EvalContext) -> None:
    turn = await t.send("When is B-1 due?")
    turn.called_tool("find_book", input={"book": "B-1"}, output={"book": "B-1", "due": "Monday"}, count=1)
    t.check(turn.message, includes("Monday"))
    turn.not_called_tool("renew")
    turn.max_tokens(1000)


@define_eval(description="Two books are looked up at once; one of them does not exist")
async def two_books(t: EvalContext) -> None:
    turn = await t.send("When are B-2 and B-9 due?")
    turn.called_tool("find_book", input={"book": "B-2"}, status="completed", count=1)
    turn.called_tool("find_book", input={"book": "B-9"}, status="failed", count=1)
    t.check(turn.message, includes("no book B-9"))


@define_eval(description="Books come as data")
async def as_data(t: EvalContext) -> None:
    turn = await t.send("B-1, B-2", output=Books)
    t.check(turn.data, equals(Books(["B-1", "B-2"])))


@define_eval(description="A conversation is remembered, and a new one starts fresh")
async def memory(t: EvalContext) -> None:
    await t.send("When is B-1 due?")
    turn = await t.send("What did I ask?")
    t.check(turn.message, includes("When is B-1 due?"))
    turn = await t.new_session().send("What did I ask?")
    t.check(turn.message, includes("Which book?"))
