"""The values below `secrets`: filled into texts for containers, and looked for in what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from skep_jobfile.javascript import SPACE, right_trim, text_of
from skep_jobfile.templates import INDEX, lookup

ROOT = "$secrets"
# A tag that prints a secret; the server has rendered all others, and what looks like one now came
# out of a parameter's value: text.
TAG = re.compile(rf"<%{SPACE}*(\$secrets[^<%]*)%>")


def names_secrets(text: str) -> bool:
    """Whether rendering may change this text."""
    return TAG.search(text) is not None


def render_secrets(text: str, secrets: Mapping[str, Any]) -> str:
    """`<% $secrets.x %>` filled in, as the container's renderer of OpenPAI does; a name without a
    value stays as it is written. For containers and registries only."""

    def printed(tag: re.Match[str]) -> str:
        value = lookup(INDEX.sub(r".\1", right_trim(tag.group(1))), {ROOT: secrets})
        return tag.group() if value is None else text_of(value)

    return TAG.sub(printed, text)


def secret_texts(value: Any) -> Iterator[str]:
    """Each value within `secrets` as it would be printed, but for nulls and empty texts."""
    if isinstance(value, Mapping):
        for child in value.values():
            yield from secret_texts(child)
    elif isinstance(value, list):
        for child in value:
            yield from secret_texts(child)
    elif value is not None and (text := text_of(value)):
        yield text
