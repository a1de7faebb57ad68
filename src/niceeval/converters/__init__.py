"""Converters: a protocol's or a framework's own objects into a `Turn`. One module for each; none imports its SDK.

    from niceeval.converters import openai_chat

    turn = openai_chat.to_turn(await client.chat.completions.create(...))

Each exports `coverage`, what the protocol can promise at most; `to_turn`, and `to_turn_stream` where there are streams;
`collected`, the turn with what has to be said about it; and `situations`: what of a run the protocol can show.
"""
