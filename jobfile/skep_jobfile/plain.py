"""Text without what steers a terminal or reorders a page: for all that is shown to people."""

from __future__ import annotations

from typing import Any

MARK = "\ufffd"
# C0 but for tab and line feed, DEL, C1 (where ESC has one-character forms), the line and paragraph
# separators, and what sets the direction of writing (CVE-2021-42574).
CONTROL = frozenset(
    {*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F)}
    | {*range(0x2066, 0x206A), 0xFEFF}
) - {0x09, 0x0A}
_TABLE = dict.fromkeys(CONTROL, MARK)


def plain(text: str) -> str:
    """Return the text with a mark for each such character."""
    return text if text.isascii() and text.isprintable() else text.translate(_TABLE)


def is_plain(text: str) -> bool:
    return plain(text) == text


def plain_data(value: Any) -> Any:
    """The same of all texts in data as JSON has it."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain_data(key): plain_data(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(child) for child in value]
    return value
