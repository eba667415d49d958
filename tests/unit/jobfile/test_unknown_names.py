"""Templates that name a parameter or secret that is not there: accepted, and reported."""

from __future__ import annotations

import json
from typing import Any

from tests.support.openpai import job

from skep_jobfile import located, notes, parse
from skep_jobfile.problems import Problem


def found(text: str) -> list[Problem]:
    read, document = parse(text)
    return [p for p in located(document, notes(read, document.data)) if p.code == "unknown_name"]


def of_command(command: str, **data: Any) -> list[str]:
    text = json.dumps(job(role={"commands": [command]}, **data))
    return [problem.message for problem in found(text)]


YAML = """\
protocolVersion: 2
name: train
type: job
prerequisites:
  - {type: dockerimage, name: image, uri: "ubuntu", auth: {password: <% $secrets.passwrd %>}}
parameters: {learning_rate: 0.1, net: {depth: 3}}
secrets: {password: hidden}
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 512, gpu: 0}
    commands:
      - echo
      - train <% $parameters.learning_rat %> <% $parameters.learning_rate %>
"""


def test_a_misspelt_name_is_reported_with_its_place_and_the_nearest_known_one() -> None:
    secret, parameter = found(YAML)
    assert (secret.line, secret.path) == (5, "prerequisites[0].auth.password")
    assert "$secrets.passwrd has no value" in secret.message
    assert secret.message.endswith(" Did you mean password?")
    assert "hidden" not in secret.message
    assert (parameter.line, parameter.column) == (14, 9)
    assert "$parameters.learning_rat has no value" in parameter.message
    assert parameter.message.endswith(" Did you mean learning_rate?")


def test_nested_names_and_indexes_are_followed() -> None:
    values = {"net": {"depth": 3}, "sizes": [1, 2]}
    good = "<% $parameters.net.depth %> <% $parameters.sizes[1] %> <% $parameters %>"
    assert of_command(good, parameters=values) == []
    (message,) = of_command("<% $parameters.net.dept %>", parameters=values)
    assert message.endswith(" Did you mean net.depth?")
    (message,) = of_command("<% $parameters.sizes[2] %>", parameters=values)
    assert message.startswith("$parameters.sizes.2 has no value")


def test_nothing_is_said_of_what_is_not_printed_or_no_name_of_a_value() -> None:
    text = "<%# $parameters.a %><%! $parameters.b %> <% other %> $parameters.c"
    assert of_command(text, parameters={"x": 1}) == []


def test_a_name_is_reported_once_for_each_text_and_not_without_end() -> None:
    assert len(of_command("<% $parameters.a %> <% $parameters.a %>")) == 1
    many = " ".join(f"<% $parameters.a{n} %>" for n in range(1000))
    assert len(of_command(many)) == 20
