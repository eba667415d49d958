"""How well and how fast the diagnosis reads logs: F1 per category on labelled endings, the share
without a category, false alarms, and lines per second of CPU time.

Five sets of tests/data/diagnosis: "known" is what the rules were written with; "held out" was
measured first (F1 0.78, 6.0 % unclassified) and the rules were mended after that; no rule was
changed for "unseen", nor for "recorded", which real programs wrote. The reference of `unclassified`
is Philly's own share (USENIX ATC 2019, table 7).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from benchmarks.report import report
from tests.support.endings import Ending, benign, endings, held_out, recorded, sources, unseen

from skep_diagnosis.scan import scan
from skep_diagnosis.table import table

PHILLY_UNCLASSIFIED = 0.042
NO_SIGNATURE = "No signature"
LINES = 1_000_000


def main() -> None:
    rules = {rule.id: rule.category or _category(rule.code) for rule in table().text_rules}
    known = [(rules[e.label], e) for e in endings()]
    measure_judgement("known", known)
    measure_judgement("held out", [(e.label, e) for e in held_out()])
    measure_judgement("unseen", [(e.label, e) for e in unseen()], by_category=True)
    measure_judgement("sources", [(e.label, e) for e in sources()], by_category=True)
    measure_retry("sources", sources())
    measure_judgement("recorded", [(e.label, e) for e in recorded()])
    alarms = [e.verdict().category != NO_SIGNATURE for e in benign()]
    report("diagnosis", "false alarms", sum(alarms) / len(alarms), "share")
    measure_speed("plain", [b"2026-11-21 10:00:00 INFO step 812 of 90000, loss 2.3121, lr 3e-4\n"])
    texts = [ending.text.encode() for ending in endings()]
    measure_speed("only errors", texts, lines=100_000)


def measure_judgement(
    name: str, labelled: Sequence[tuple[str, Ending]], *, by_category: bool = False
) -> None:
    pairs = [(wanted, ending.verdict().category) for wanted, ending in labelled]
    right = Counter(wanted for wanted, got in pairs if wanted == got)
    wanted, got = Counter(w for w, _ in pairs), Counter(g for _, g in pairs)
    f1 = {one: 2 * right[one] / (wanted[one] + got[one]) for one in sorted(wanted)}
    for category, value in f1.items() if by_category else ():
        report("diagnosis", f"{name}: f1 {category}", value, "F1")
    report("diagnosis", f"{name}: mean f1", sum(f1.values()) / len(f1), "F1")
    report("diagnosis", f"{name}: right", right.total() / len(pairs), "share")
    missed = got[NO_SIGNATURE] - right[NO_SIGNATURE]
    report("diagnosis", f"{name}: unclassified", missed / len(pairs), "share", PHILLY_UNCLASSIFIED)
    report("diagnosis", f"{name}: endings", len(pairs), "endings")


def measure_retry(name: str, labelled: Sequence[Ending]) -> None:
    """Share and F1 of the class that decides about a retry."""
    pairs = [(ending.retry, ending.verdict().retry) for ending in labelled]
    for one in ("transient", "permanent", "unknown"):
        right = sum(wanted == got == one for wanted, got in pairs)
        total = sum((wanted == one) + (got == one) for wanted, got in pairs)
        report("diagnosis", f"{name}: f1 of class {one}", 2 * right / total, "F1")
    right = sum(wanted == got for wanted, got in pairs)
    report("diagnosis", f"{name}: class right", right / len(pairs), "share")


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
