"""Every command and option that the documentation names is one that there is."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from skep_agent.main import app as agent
from skep_client.cli import app as skep
from skep_platform.onebox import options

DOCS = Path(__file__).resolve().parents[3] / "docs"
# The reference of the command line is made from the commands themselves.
PAGES = sorted(page for page in DOCS.glob("*.md") if page.name != "cli.md")
# At the begin of a line, of inline code, or of a cell of a table.
NAMED = re.compile(r"(?:^ *|`|\| ?|\$ )(skep|skep-agent) ([a-z][^\n`]*)", re.MULTILINE)
END = re.compile(r"  | #| -- ")  # what is behind is a remark, or the command of a job
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
PASSED_ON = {("skep", name) for name in ("down", "status", "manage", "backup")}


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Return the options of a command and of all below it, by the words that lead there."""
    named = [name for each in command.params for name in (*each.opts, *each.secondary_opts)]
    yield path, {"--help", *named}
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


def known() -> dict[tuple[str, ...], set[str]]:
    up = argparse.ArgumentParser()
    options.add_arguments(up)
    return {
        **dict(commands(typer.main.get_command(skep), ("skep",))),
        **dict(commands(typer.main.get_command(agent), ("skep-agent",))),
        ("skep", "up"): set(OPTION.findall(up.format_help())),
    }


KNOWN = known()


def unknown(program: str, text: str) -> list[str]:
    """Return what of this command line is no command or no option."""
    text = END.split(text)[0]
    path = (program,)
    for word in text.split():
        if (*path, word) not in KNOWN:
            break
        path = (*path, word)
    if len(path) == 1:
        return [f"{program} {text}"]
    if path in PASSED_ON:
        return []
    return [f"{' '.join(path)} {o}" for o in OPTION.findall(text) if o not in KNOWN[path]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_exist_with_their_options(page):
    named = NAMED.findall(page.read_text())
    assert [each for program, text in named for each in unknown(program, text)] == []


def test_a_command_and_an_option_that_there_are_not_are_found():
    assert unknown("skep", "nodez list") == ["skep nodez list"]
    assert unknown("skep", "nodes drain gpu-07 --gently") == ["skep nodes drain --gently"]
    assert unknown("skep-agent", "run --label rack=r1") == ["skep-agent run --label"]
    assert unknown("skep", "up --detach --nodes 2") == []
