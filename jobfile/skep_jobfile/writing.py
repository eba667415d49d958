"""A job file as people write it: blocks of YAML, scripts as literal text."""

from __future__ import annotations

import io
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from skep_jobfile import scalars

WIDE = 1_000_000  # columns: never fold a line
YES_OR_NO = frozenset({"y", "n", "yes", "no", "on", "off"})  # to readers of YAML 1.1


def dump(data: dict[str, Any]) -> str:
    """Reads back as the same data."""
    yaml = YAML()
    yaml.width = WIDE
    yaml.allow_unicode = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(_node(data), stream)
    return stream.getvalue()


def _node(value: Any) -> Any:
    if isinstance(value, dict):
        return CommentedMap({_text(str(key)): _node(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return CommentedSeq([_node(item) for item in value])
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """Quoted where our reader, or another one, would take it for something else."""
    if "\n" in text and _fits_a_block(text):
        return LiteralScalarString(text)
    simple = text.isprintable() and text.isascii() and text.lower() not in YES_OR_NO
    plain = simple and scalars.read(text) == text
    return text if plain else DoubleQuotedScalarString(text)


def _fits_a_block(text: str) -> bool:
    """A block keeps its text only where its first line does not begin with white space and
    nothing in it has to be escaped."""
    printable = all(char.isprintable() or char in "\n\t" for char in text)
    return printable and text[0] not in " \t\n" and "\n" not in text[-1:]
