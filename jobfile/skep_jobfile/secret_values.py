"""The values below `secrets`: filled into texts for containers, and looked for in what they say."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from skep_jobfile.budget import Budget
from skep_jobfile.javascript import SPACE, right_trim, text_of
from skep_jobfile.templates import INDEX, lookup

ROOT = "$secrets"
MIN_MASKED = 4  # characters; shorter ones are everywhere
PLAIN = frozenset({"true", "false"})
# A tag that prints a secret; the server has rendered all others, and what looks like one now came
# out of a parameter's value: text.
TAG = re.compile(rf"<%{SPACE}*(\$secrets[^<%]*)%>")


def names_secrets(text: str) -> bool:
    """Whether rendering may change this text."""
    return TAG.search(text) is not None


def render_secrets(text: str, secrets: Mapping[str, Any], budget: Budget | None = None) -> str:
    """`<% $secrets.x %>` filled in, as the container's renderer of OpenPAI does; a name without a
    value stays as it is written. For containers and registries only. Raises TooMuchText as soon as
    the budget is spent."""
    budget = budget or Budget()
    parts, place = [], 0
    for tag in TAG.finditer(text):
        value = lookup(INDEX.sub(r".\1", right_trim(tag.group(1))), {ROOT: secrets})
        parts.append(budget.write(text[place : tag.start()]))
        parts.append(budget.write(tag.group() if value is None else text_of(value)))
        place = tag.end()
    parts.append(budget.write(text[place:]))
    return "".join(parts)


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


def masks_of(texts: Iterable[str]) -> list[str]:
    """These texts, each of their lines, and what they are when they are encoded."""
    lines = {line.strip() for text in texts for line in (text, *text.splitlines())}
    found = {form for line in lines - PLAIN if len(line) >= MIN_MASKED for form in _forms(line)}
    return sorted(found, key=lambda form: (-len(form), form))


def _forms(text: str) -> Iterator[str]:
    yield from (text, quote(text, safe=""), quote(text), quote_plus(text), json.dumps(text)[1:-1])
    data = text.encode()
    yield base64.b64encode(data).decode()
    yield base64.urlsafe_b64encode(data).decode()
    for before in range(3):  # within "user:password", it may begin at any of three places
        whole = base64.b64encode(bytes(before) + data).decode()
        inner = whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if len(inner) >= MIN_MASKED:
            yield inner
