"""The verdict on a job: of its tasks the one that failed first, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from skep_diagnosis.facts import SIGKILL_EXIT, Facts, matching_rule
from skep_diagnosis.scan import Match, Scan, scan
from skep_diagnosis.table import NO_SIGNATURE, TIERS, Code, Rule, Table, table

# A rank that waits for one that failed says so later; clocks and exits differ by less than this.
SKEW_S = 30.0
SUCCESS = 0
SYMPTOM = TIERS.index("symptom")
CONSEQUENCE = TIERS.index("consequence")
NOTHING_KNOWN = Facts()
CHILD_KILLED = 327
HOST_OUT_OF_MEMORY = 314
EXIT_CODE_RULE = "exit_code_"
# Exit codes of signals: what the log says explains them only when it is at its end, and has at
# least this tier. A process aborts itself, also when it waits in vain for others; it dies by faults
# of its own; and by the rest from outside.
SIGNALS = {134: 2, 132: 1, 135: 1, 136: 1, 139: 1, 141: 1, 130: 0, 131: 0, 137: 0, 143: 0}
FILE_RANK = re.compile(r"(?:rank|task|worker|node)[-_.]?(\d{1,6})|[-_.](\d{1,6})(?:\.|$)")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line of a log (`line` from 1), or facts in words (`line` 0)."""

    source: str  # "log", "facts" or "none"
    text: str
    log: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    code: int
    name: str
    type: str
    category: str
    axis: str
    retry: str
    reaction: str
    blame: str
    rule: str
    evidence: Evidence
    remedy: str
    title: str = ""  # what a person calls it
    rank: int | None = None
    exit_code: int | None = None

    @property
    def node_to_blame(self) -> bool:
        return self.blame == "node"

    @property
    def settled(self) -> bool:
        """Whether facts decide it, so that no log can explain it better."""
        late = {rule.id for rule in table().late_fact_rules}
        by_exit_code = self.rule.startswith(EXIT_CODE_RULE)
        return self.evidence.source == "facts" and not by_exit_code and self.rule not in late


@dataclass(frozen=True, slots=True)
class Log:
    """One task's output and what is known of the task."""

    name: str
    chunks: Iterable[bytes]
    facts: Facts = NOTHING_KNOWN


@dataclass(frozen=True, slots=True)
class _Candidate:
    verdict: Verdict
    tier: int
    at: float | None
    order: int


def diagnose(logs: Sequence[Log], rules: Table | None = None) -> Verdict:
    """Reads each log once, and stops where no later task can have failed before the cause that was
    found. Without logs, give one of no chunks with the facts."""
    rules = rules or table()
    found: list[_Candidate] = []
    for order, log in enumerate(logs):
        found.append(_candidate(log, order, rules))
        if _settled(found[-1], logs[order + 1 :]):
            break
    return _first(found).verdict if found else _verdict(rules.code(NO_SIGNATURE), None)


def _settled(found: _Candidate, rest: Sequence[Log]) -> bool:
    """Whether it is a cause, and all the rest ended after it."""
    if found.at is None or found.tier >= CONSEQUENCE:
        return False
    ends = [log.facts.finished_at for log in rest]
    return all(end is not None and end > found.at for end in ends)


def _candidate(log: Log, order: int, rules: Table) -> _Candidate:
    facts, read = log.facts, scan(log.chunks, rules, log.facts.exit_code)
    rank = facts.rank if facts.rank is not None else _rank(log.name, read.best)
    verdict, tier = _judge(log, read, rank, rules)
    at = facts.finished_at
    if at is None and read.best:
        at = read.best.at
    return _Candidate(verdict, tier, at, order if rank is None else rank)


def _judge(log: Log, read: Scan, rank: int | None, rules: Table) -> tuple[Verdict, int]:
    facts, best = log.facts, read.best
    by_facts = matching_rule(facts, rules.fact_rules)
    if by_facts is None and (best is None or best.rule.tier > 0):
        by_facts = matching_rule(facts, rules.late_fact_rules)
    if by_facts:
        rule, words = by_facts
        return _of_rule(rule, Evidence("facts", words), rank, facts.exit_code, rules), 0
    exit_code = facts.exit_code
    killed = best and best.rule.kill and exit_code != SUCCESS
    if killed and (by_facts := matching_rule(facts, rules.kill_fact_rules)):
        rule, words = by_facts
        return _of_rule(rule, Evidence("facts", words), rank, exit_code, rules), 0
    if exit_code == SUCCESS:
        return _verdict(rules.code(SUCCESS), exit_code, rank=rank), len(TIERS) + 1
    by_code = exit_code is not None and (exit_code in SIGNALS or exit_code < 0)
    worst = SIGNALS.get(exit_code or 0, 0)
    if best and not (by_code and (best.rule.tier > worst or not read.near_the_end)):
        evidence = Evidence("log", best.text, log.name, best.line)
        rule = _weighed(best.rule, facts)
        return _of_rule(rule, evidence, rank, exit_code, rules), rule.tier
    if exit_code is not None and by_code:
        evidence = Evidence("facts", f"exit_code = {exit_code}")
        return _verdict(rules.code(exit_code), exit_code, evidence, rank), 1
    return _verdict(rules.code(NO_SIGNATURE), exit_code, rank=rank), len(TIERS)


def _weighed(rule: Rule, facts: Facts) -> Rule:
    """Return the rule with the code that the facts leave.

    A job of one task has no other ranks that could be lost. Where a rule takes a kill for lack of
    memory, and the agent saw that the memory sufficed, another process sent the signal.
    """
    if rule.alone and facts.tasks == 1:
        return replace(rule, code=rule.alone, tier=SYMPTOM, category="")
    guess = rule.kill or (rule.code == HOST_OUT_OF_MEMORY and facts.exit_code == SIGKILL_EXIT)
    if not guess or not facts.memory_sufficed:
        return rule
    return replace(rule, code=CHILD_KILLED, category="")


def _first(found: Sequence[_Candidate]) -> _Candidate:
    """The earliest cause; a consequence only where no cause is near it in time."""
    least = min(one.tier for one in found)
    if least >= len(TIERS):
        return min(found, key=lambda one: (one.tier, one.order))
    known = [one for one in found if one.tier < len(TIERS)]
    causes = [one for one in known if one.tier < CONSEQUENCE] or known
    first = min(causes, key=_when)
    early = min(known, key=_when)
    if early.at is not None and first.at is not None and first.at - early.at > SKEW_S:
        return early
    return first


def _when(one: _Candidate) -> tuple[bool, float, int, int]:
    return one.at is None, one.at or 0.0, one.tier, one.order


def _of_rule(
    rule: Rule, evidence: Evidence, rank: int | None, exit_code: int | None, rules: Table
) -> Verdict:
    return _verdict(rules.code(rule.code), exit_code, evidence, rank, rule)


def _verdict(
    code: Code,
    exit_code: int | None,
    evidence: Evidence | None = None,
    rank: int | None = None,
    rule: Rule | None = None,
) -> Verdict:
    shadowed = code.code < 0 and exit_code is not None and exit_code < 0
    return Verdict(
        code=exit_code if shadowed and exit_code is not None and not rule else code.code,
        name=code.name,
        type=code.type,
        category=(rule.category if rule else "") or code.category,
        axis=code.axis,
        retry=code.retry,
        reaction=code.reaction,
        blame=code.blame,
        rule=rule.id if rule else (f"{EXIT_CODE_RULE}{exit_code}" if evidence else ""),
        evidence=evidence or Evidence("none", ""),
        remedy=code.remedy,
        title=code.heading,
        rank=rank,
        exit_code=exit_code,
    )


def _rank(name: str, best: Match | None) -> int | None:
    if best and best.rank is not None:
        return best.rank
    found = FILE_RANK.search(name.rpartition("/")[2])
    return int(found[1] or found[2]) if found else None
