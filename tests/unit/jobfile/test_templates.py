"""Templates come out as OpenPAI's server prints them."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.openpai import PROBES, recorded

from skep_jobfile.javascript import text_of, trim
from skep_jobfile.rendering import auths
from skep_jobfile.templates import TemplateError, render

# As the recording says.
VALUES: dict[str, Any] = {
    "$parameters": {
        "a": 1, "b": "two", "f": 0, "z": None, "t": True, "n": {"k": "deep"}, "l": [7, 8]
    },
    "$data": {"name": "ds", "uri": ["http://a/0", "http://a/1"]},
    "$output": {"name": "out", "uri": "hdfs://o"},
    "$script": {"name": "sc", "uri": "git://s"},
}  # fmt: skip


@pytest.mark.parametrize("number", range(10))
def test_recorded_rendering(number: int) -> None:
    probe = recorded(PROBES)["rendering_probes"]["cases"][number]
    script = "\n".join(trim(command) for command in probe["commands"])
    if "error" in probe:
        with pytest.raises(TemplateError, match=probe["error"]):
            render(script, VALUES)
    else:
        assert render(script, VALUES) == probe["entrypoint"]


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        pytest.param("<% $parameters.n.k %>", "deep", id="an object's field"),
        pytest.param("<% $parameters.n %>", "[object Object]", id="an object is not shown"),
        pytest.param("<% $parameters.l %>", "7,8", id="a list is joined by commas"),
        pytest.param("<% $parameters.l.length %>", "2", id="a list knows its length"),
        pytest.param("<%$parameters.a%>", "1", id="spaces in a tag are free"),
        pytest.param("a<%! said aside %>b", "ab", id="a comment vanishes"),
        pytest.param("a<%& $parameters.a %>b", "ab", id="an unescaped tag vanishes"),
        pytest.param("a<%{ $parameters.a }%>b", "ab", id="so does a triple one"),
        pytest.param("a<%# x %>b<%/ x %>c", "ac", id="so does a section"),
        pytest.param("a\n  <%! x %>  \nb", "a\nb", id="a line of marks alone vanishes"),
        pytest.param("a\n <%nope%> \nb", "a\n <% nope %> \nb", id="a line with a name stays"),
        pytest.param("<% $secrets.p %>", "<% $secrets.p %>", id="secrets stay out"),
        pytest.param("&<% $parameters.b %><", "&two<", id="nothing is escaped"),
        pytest.param("100 %> <", "100 %> <", id="a closing tag alone is text"),
    ],
)
def test_a_template_is_rendered(template: str, printed: str) -> None:
    assert render(template, VALUES) == printed


@pytest.mark.parametrize(
    "template", ["<% a", "<%# a %>", "<%/ a %>", "<%# a %><%/ b %>", "<%=one=%>", "<%= a b"]
)
def test_a_broken_template_is_reported(template: str) -> None:
    with pytest.raises(TemplateError):
        render(template, VALUES)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"), (1e-6, "0.000001"), (1e-7, "1e-7"), (1.5e-10, "1.5e-10"),
        (1e20, "1" + "0" * 20),
        (1e21, "1e+21"), (12345.678, "12345.678"), (-2.0, "-2"), (0.0, "0"), (True, "true"),
        (float("inf"), "Infinity"), ([1, None, [2, "x"]], "1,,2,x"), (2**60, "1152921504606847000"),
    ],
)  # fmt: skip
def test_a_value_is_written_as_javascript_writes_it(value: Any, text: str) -> None:
    assert text_of(value) == text


@given(st.text(alphabet="<%>=#/{}& \n.ab$[0]", max_size=60))
def test_any_template_is_rendered_or_reported(template: str) -> None:
    with contextlib.suppress(TemplateError):
        render(template, VALUES)


def test_white_space_does_not_make_it_slow() -> None:
    with pytest.raises(TemplateError):
        render("<%a" + " " * 1_000_000, VALUES)


def test_secrets_are_rendered_for_the_registry_only() -> None:
    auth = {"username": "u", "password": "<% $secrets.p %>", "registryuri": "reg"}
    image = {"name": "image", "type": "dockerimage", "uri": "a", "auth": auth}
    found, issues = auths({"prerequisites": [image], "secrets": {"p": "S3"}})
    assert (found, issues) == ({"image": {**auth, "password": "S3"}}, [])
