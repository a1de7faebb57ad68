"""Constructing an agent: callbacks that could never be called are refused before anything runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from niceeval._base.errors import AdapterError
from niceeval.adapter import Agent, Turn, complete_evidence_coverage, define_agent


class Service:
    def send(self, input: object, ctx: object) -> Turn:
        return Turn()

    def short(self, input: object) -> Turn:
        return Turn()

    def __call__(self, input: object, ctx: object) -> Turn:
        return Turn()


async def one(input: object) -> Turn:
    return Turn()


@functools.wraps(one)
async def around(input: object, ctx: object) -> Turn:
    return Turn()


def an_agent(**callbacks: Any) -> Agent:
    return define_agent(
        name="bot", evidence_coverage=complete_evidence_coverage, **{"send": Service().send, **callbacks}
    )


@pytest.mark.parametrize(
    ("role", "callback", "called_as"),
    [
        ("send", one, "send(input, ctx)"),
        ("send", Service().short, "send(input, ctx)"),
        ("send", lambda input, ctx, more: Turn(), "send(input, ctx)"),
        ("send", lambda input, *, ctx: Turn(), "send(input, ctx)"),
        ("setup", lambda: None, "setup(ctx)"),
        ("teardown", lambda ctx, session: None, "teardown(ctx)"),
        ("classify_failure", lambda: None, "classify_failure(error)"),
    ],
)
def test_a_function_that_cannot_take_what_it_is_given(
    role: str, callback: Callable[..., object], called_as: str
) -> None:
    """Every attempt would fail with a TypeError of ours."""
    with pytest.raises(AdapterError) as caught:
        an_agent(**{role: callback})
    assert caught.value.code == "agent-invalid"
    assert f"agent bot: {role} is called as {called_as}: " in str(caught.value)
    assert caught.value.place is not None


@pytest.mark.parametrize(
    "send",
    [
        lambda input, ctx: Turn(),
        lambda *given: Turn(),
        lambda input, ctx, timeout=3: Turn(),
        functools.partial(lambda base, input, ctx: Turn(), "http://localhost"),
        Service(),
        Service().send,
        around,
    ],
    ids=["two", "any", "optional", "partial", "object", "method", "wrapper"],
)
def test_whatever_can_take_it_is_an_agents_send(send: Callable[..., Any]) -> None:
    """The names are the author's; of a wrapper its own signature counts."""
    assert an_agent(send=send).send is send


@pytest.mark.parametrize("names", ["SERVICE_KEY", [1], None])
def test_secret_variables_are_given_by_name(names: object) -> None:
    """One text would be read letter by letter, and nothing would be hidden."""
    with pytest.raises(AdapterError) as caught:
        an_agent(secret_env=names)
    assert caught.value.code == "agent-invalid"
    assert "secret_env" in str(caught.value)
    assert an_agent(secret_env=["SERVICE_KEY"]).secret_env == ("SERVICE_KEY",)
