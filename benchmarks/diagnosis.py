"""How well and how fast the diagnosis reads logs: F1 per category on the labelled endings of
tests/data/diagnosis, the share without a category, and lines per second of CPU time.

The reference of `unclassified` is Philly's own share (USENIX ATC 2019, table 7).
"""

from __future__ import annotations

import time
from collections import Counter

from benchmarks.report import report
from tests.support.endings import endings

from skep_diagnosis.scan import scan
from skep_diagnosis.table import table

PHILLY_UNCLASSIFIED = 0.042
NO_SIGNATURE = "No signature"
LINES = 1_000_000


def main() -> None:
    measure_judgement()
    measure_speed("plain", [b"2026-11-21 10:00:00 INFO step 812 of 90000, loss 2.3121, lr 3e-4\n"])
    told = [ending.text.encode() for ending in endings()]
    measure_speed("only errors", told, lines=100_000)


def measure_judgement() -> None:
    category = {rule.id: rule.category or _category(rule.code) for rule in table().text_rules}
    pairs = [(category[e.label], e.verdict().category) for e in endings()]
    right = Counter(wanted for wanted, got in pairs if wanted == got)
    wanted, got = Counter(w for w, _ in pairs), Counter(g for _, g in pairs)
    for name in sorted(wanted):
        report("diagnosis", f"f1 {name}", 2 * right[name] / (wanted[name] + got[name]), "F1")
    unclassified = got[NO_SIGNATURE] / len(pairs)
    report("diagnosis", "unclassified", unclassified, "share", PHILLY_UNCLASSIFIED)
    report("diagnosis", "endings", len(pairs), "endings")


def measure_speed(name: str, texts: list[bytes], lines: int = LINES) -> None:
    unit = b"".join(texts)
    repeats = max(1, lines // unit.count(b"\n"))
    rules = table()
    start = time.thread_time()
    found = scan((unit for _ in range(repeats)), rules)
    seconds = time.thread_time() - start
    report("diagnosis", f"{name} lines", found.lines / seconds, "lines/s")


def _category(code: int) -> str:
    return table().codes[code].category


if __name__ == "__main__":
    main()
