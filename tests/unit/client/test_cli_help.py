"""Commands and options say what they do, and there are no two ways to say a thing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from skep_client.cli import app


def commands(group: Any = None, name: str = "") -> Iterator[tuple[str, Any]]:
    for command in (group or typer.main.get_command(app)).commands.values():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name}{command.name} ")
        yield f"{name}{command.name}", command


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda value: str(value)[:20])
def test_each_command_and_option_says_what_it_does(name: str, command: Any) -> None:
    assert command.help, name
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            assert parameter.help, f"{name} {parameter.opts}"
