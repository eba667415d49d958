"""A script inside of a script."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def run(program: Sequence[str], text: str, end: str) -> str:
    """`program` (such as `bash -c`) with the text as its next word, to be read as it is written;
    `end` is a word for the line behind it."""
    lines = {line for line in text.split("\n") if line.startswith(end)}
    while end in lines:
        end += "_"
    return f"{shlex.join(program)} \"$(cat <<'{end}'\n{text}\n{end}\n)\""
