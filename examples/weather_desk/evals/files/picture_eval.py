"""A file goes with the turn; the desk reads the picture's size from its bytes."""

from niceeval import EvalContext, define_eval


@define_eval(description="A picture's size is read, not guessed")
async def picture(t: EvalContext) -> None:
    turn = await t.send_file("sky.png", "How large is this picture?")
    turn.called_tool("read_picture", input={"filename": "sky.png"}, output={"width": 48, "height": 32})
    turn.message_includes("48 x 32 pixels")
