"""Secrets are found by the names of their variables and replaced wherever they occur."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._base.redaction import VOCABULARY, Redactor, looks_like_credential, secret_values


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "GH_TOKEN",
        "DB_PASSWORD",
        "aws_secret_access_key",
        "dbPassword",
        "APIKEY",
        "GOOGLE_CREDENTIALS",
    ],
)
def test_a_credentials_name_is_recognised(name: str) -> None:
    """By one of its words."""
    assert looks_like_credential(name)


@pytest.mark.parametrize("name", ["PATH", "HOME", "PWD", "KEYBOARD_LAYOUT", "TOKENIZERS_PARALLELISM", "LANG"])
def test_an_ordinary_name_is_not(name: str) -> None:
    """A word that only starts like one is another word."""
    assert not looks_like_credential(name)


def test_secrets_are_values_of_credentials_and_of_dotenv() -> None:
    """The environment by name, `.env` whole, and passwords in URLs; short and common values are left alone."""
    environ = {"API_KEY": "sk-12345678", "HOME": "/home/somebody", "X_TOKEN": "abc", "DB": "pg://u:hunter22@db/x"}
    dotenv = {"SUPPORT_URL": "http://support.internal", "MODE": "production", "PORT": "8000"}
    assert secret_values(environ, dotenv) == {"sk-12345678", "hunter22", "http://support.internal"}


def test_a_variable_that_an_agent_names_is_a_secret() -> None:
    """Whatever it is called; one that is not set is nothing."""
    environ = {"SUPPORT_PASS": "hunter2222", "HOME": "/home/somebody"}
    assert secret_values(environ, {}, ("SUPPORT_PASS", "NOT_SET")) == {"hunter2222"}


def test_every_occurrence_is_replaced() -> None:
    """The longer of two secrets goes first."""
    redact = Redactor(["abcdef", "abcdefgh"])
    assert redact("x abcdefgh y abcdef z") == "x [redacted] y [redacted] z"


def test_a_text_without_secrets_is_returned_itself() -> None:
    """Nothing is copied in the ordinary case."""
    text = "nothing here"
    assert Redactor(["s3cret!!"])(text) is text


def test_a_short_value_is_no_secret() -> None:
    """It would be found everywhere by chance."""
    assert Redactor(["a", "true"])("a true story") == "a true story"


SECRETS = st.text(min_size=6, max_size=20).filter(lambda text: not text.isdigit() and text not in VOCABULARY)


@given(SECRETS, st.text(max_size=10))
def test_a_secret_never_survives_in_json_text(secret: str, around: str) -> None:
    """Neither as it is nor escaped, in text that quotes JSON once or twice."""
    redact = Redactor([secret])
    once = json.dumps(around + secret)
    inner = json.dumps(secret)[1:-1]
    assert inner not in redact(once) or inner in "[redacted]"
    assert json.dumps(inner)[1:-1] not in redact(json.dumps(once)) or inner in "[redacted]"


CUTS = ["…", "… [cut: 70,000 characters]", " [+412 chars]", '…" [70,000 characters]', " [+2,000 characters]"]


@pytest.mark.parametrize("mark", CUTS)
@pytest.mark.parametrize("length", [4, 9, 15])
def test_the_part_of_a_secret_in_front_of_a_cut_is_replaced(mark: str, length: int) -> None:
    """Texts are cut before secrets are looked for, so that a cut may leave the beginning of one."""
    redact = Redactor(["sk-live-ABCDEFGH", "another-secret"])
    cut = f"x {'sk-live-ABCDEFGH'[:length]}{mark} and sk-live-ABCDEFGH"
    assert redact(cut) == f"x [redacted]{mark} and [redacted]"
    assert redact.found_in(f"sk-live{mark}")


@pytest.mark.parametrize("text", ["sk- is short…", "sk-…", "sk-live is named [+12 chars]", "sk-live", "… sk-live"])
def test_what_merely_begins_like_a_secret_stays(text: str) -> None:
    """Three characters are found by chance, and a beginning without a cut behind it is a word of somebody's."""
    assert Redactor(["sk-live-ABCDEFGH"])(text) is text


@given(SECRETS, st.text(max_size=30), st.integers(4, 19), st.sampled_from(CUTS))
def test_no_cut_lets_a_part_of_a_secret_through(secret: str, before: str, length: int, mark: str) -> None:
    """Wherever the cut falls, and also where the text is JSON."""
    part = secret[: min(length, len(secret) - 1)]
    for text in (before + part + mark, json.dumps(before + part + mark, ensure_ascii=False)):
        assert Redactor([secret])(text) != text
