"""A script inside of a script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence


def run(program: Sequence[str], text: str, end: str) -> str:
    """`program` (such as `bash -c`) with the text as its next word, to be read as it is written;
    `end` is a word for the line behind it."""
    while re.search(f"^{end}$", text, re.MULTILINE):
        end += "_"
    return f"{shlex.join(program)} \"$(cat <<'{end}'\n{text}\n{end}\n)\""
