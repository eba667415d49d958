"""Secrets come out in containers as OpenPAI's renderer prints them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.openpai import RUNTIME, recorded

from skep_jobfile import names_secrets, render_secrets, secret_texts

SECRETS: dict[str, Any] = {"p": "S3cret", "l": ["a", 2], "n": {"k": True}, "z": None, "0": 0}


@pytest.mark.parametrize("number", range(4))
def test_recorded_rendering(number: int) -> None:
    case = recorded(RUNTIME)["secret_rendering"]["cases"][number]
    assert render_secrets(case["command"], case["secrets"]) == case["expected"]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        pytest.param("a <%$secrets.p%> b", "a S3cret b", id="spaces in a tag are free"),
        pytest.param("<% $secrets.l[1] %>", "2", id="an item of a list"),
        pytest.param("<% $secrets.l %>", "a,2", id="a list is joined by commas"),
        pytest.param("<% $secrets.n.k %>", "true", id="a field of an object"),
        pytest.param("<% $secrets.0 %>", "0", id="zero is a value"),
        pytest.param("<% $secrets.z %>", "<% $secrets.z %>", id="null stays as it is written"),
        pytest.param("<% $secrets.q %>", "<% $secrets.q %>", id="so does an unknown name"),
        pytest.param("<% $parameters.p %>", "<% $parameters.p %>", id="so does all else"),
        pytest.param("  <%# x %>\n", "  <%# x %>\n", id="what looks like a mark is text now"),
    ],
)
def test_a_text_is_rendered(text: str, printed: str) -> None:
    assert render_secrets(text, SECRETS) == printed


def test_a_text_that_names_no_secret_is_known() -> None:
    assert names_secrets("x <% $secrets.p %>")
    assert not names_secrets("x <% $parameters.p %> $secrets.p")


def test_every_value_is_reported_as_it_is_printed() -> None:
    assert list(secret_texts(SECRETS)) == ["S3cret", "a", "2", "true", "0"]


@given(st.text(alphabet="<%> $secrets.[0]p\n", max_size=80))
def test_any_text_is_rendered(text: str) -> None:
    assert render_secrets(text, {}) == text


@pytest.mark.parametrize("text", ["<%" * 100_000, "<% $secrets." * 20_000, "<% " + " " * 200_000])
def test_nothing_makes_it_slow(text: str) -> None:
    assert render_secrets(text, SECRETS) == text
