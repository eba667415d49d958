"""The glossary and the code use the same names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
PROTOCOL = ROOT / "agent/skep_agent/protocol.py"
MODEL = ROOT / "scheduler/skep_scheduler/model/__init__.py"
SCHEMA = ROOT / "platform/skep_platform/openapi.yaml"


def classes() -> set[str]:
    """All names of classes in the distributions."""
    texts = (path.read_text() for path in ROOT.glob("*/skep_*/**/*.py"))
    return {name for text in texts for name in re.findall(r"^ *class (\w+)", text, re.M)}


def in_code() -> set[str]:
    """The names in the last column of the tables of three columns."""
    rows = re.findall(r"^\| \*\*.+\*\* \| .+ \| (.*)\|$", GLOSSARY, re.M)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def public(path: Path) -> set[str]:
    """The public classes of a module, or what `__all__` of a package lists."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found.add(node.name)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            found |= set(ast.literal_eval(node.value))
    return {name for name in found if not name.isupper()}


def test_each_name_of_the_code_in_the_glossary_is_a_class() -> None:
    assert in_code() - classes() == set()


@pytest.mark.parametrize("path", [MODEL, PROTOCOL], ids=["scheduler model", "protocol"])
def test_each_public_name_stands_in_the_glossary(path: Path) -> None:
    assert public(path) - in_code() == set()


def test_each_rest_resource_stands_in_the_glossary() -> None:
    paths = yaml.load(SCHEMA.read_bytes(), yaml.CSafeLoader)["paths"]
    listed = set(re.findall(r"`([a-z-]+)`", GLOSSARY.partition("## REST resources")[2]))
    assert {path.split("/")[3] for path in paths} - listed == set()


def test_no_term_stands_twice() -> None:
    terms = re.findall(r"^\| \*\*(.+?)\*\*", GLOSSARY, re.M)
    assert len(terms) == len(set(terms))
