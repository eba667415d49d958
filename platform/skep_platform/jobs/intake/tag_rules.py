"""What a tag of a job may be. Pure: it is imported by processes without Django."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from skep_jobfile import Path, Trouble

MAX_TAGS = 20
TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")


def check_tags(tags: Sequence[str], path: Path) -> Iterator[Trouble]:
    """What is wrong with them."""
    if len(tags) > MAX_TAGS:
        yield Trouble("too_many_tags", f"A job has at most {MAX_TAGS} tags.", path)
    for index, tag in enumerate(tags):
        if not TAG.fullmatch(tag):
            message = (
                "A tag has up to 64 letters, digits and . _ : / -, and begins with a letter "
                "or digit."
            )
            yield Trouble("invalid_tag", message, (*path, index))


def tidy(tags: Sequence[str]) -> list[str]:
    """Each once, in their order."""
    return list(dict.fromkeys(tags))
