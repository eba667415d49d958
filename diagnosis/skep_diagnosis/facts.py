"""What the platform knows of a task that ended, and which rules it meets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from skep_diagnosis.table import Rule

FULL = 0.95  # of the memory limit, at the peak: the kernel's kill is plausible
SIGKILL_EXIT = 137
MAX_EVIDENCE_CHARS = 200  # characters of an error code with its message


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one task attempt. Memory in MB, `finished_at` in seconds since the epoch."""

    exit_code: int | None = None
    oom_killed: bool = False
    init_oom: bool = False  # in a container of ours, before the user's started
    memory_peak_mb: float | None = None
    memory_limit_mb: float | None = None
    xid: tuple[int, ...] = ()
    ecc_double: bool = False
    disk_full: bool = False
    preempted: bool = False
    node_lost: bool = False
    stopped: bool = False
    error_code: str = ""  # of the agent, such as "image_not_found"
    reason: str = ""  # of the container, such as "OOMKilled"
    message: str = ""
    platform_log: str = ""
    rank: int | None = None
    tasks: int | None = None  # of the job
    finished_at: float | None = None

    @property
    def memory_full(self) -> bool:
        """Whether the container was killed (SIGKILL) with its memory near the limit."""
        return self.exit_code == SIGKILL_EXIT and self.memory_near_limit

    @property
    def memory_near_limit(self) -> bool:
        """Whether the peak reached FULL of the limit, as far as both are known."""
        if not self.memory_peak_mb or not self.memory_limit_mb:
            return False
        return self.memory_peak_mb >= FULL * self.memory_limit_mb

    @property
    def memory_sufficed(self) -> bool:
        """Return whether an agent watched the memory and saw neither an OOM kill nor a peak near
        the limit. False without an agent, such as for a log file alone."""
        watched = self.memory_limit_mb is not None
        return watched and not self.oom_killed and not self.memory_near_limit


def read_facts(data: Mapping[str, Any]) -> Facts:
    """Of plain data; unknown keys and values of a wrong kind are passed over. Signals become exit
    codes, and OpenPAI's names (`gpuInfo.nvidiaDoubleEccError`, `exitCode`) are read too."""
    gpu = data.get("gpuInfo", data.get("gpu"))
    gpu = gpu if isinstance(gpu, Mapping) else {}
    reason = _text(data, "reason")
    name = _text(data, "container")
    killed = _true(data, "oom_killed") or reason.lower() == "oomkilled"
    return Facts(
        exit_code=_exit_code(data),
        oom_killed=killed and name != "init",
        init_oom=killed and name == "init",
        memory_peak_mb=_number(data, "memory_peak_mb"),
        memory_limit_mb=_number(data, "memory_limit_mb", "memory_mb"),
        xid=_xids(data),
        ecc_double=_true(data, "ecc_double", "double_ecc", "nvidiaDoubleEccError")
        or _true(gpu, "nvidiaDoubleEccError"),
        disk_full=_true(data, "disk_full"),
        preempted=_true(data, "preempted"),
        node_lost=_true(data, "node_lost"),
        stopped=_true(data, "stopped", "user_stopped"),
        error_code=_text(data, "error_code"),
        reason=reason,
        message=_text(data, "message", "error_message"),
        platform_log=_text(data, "platform_log"),
        rank=_whole(data, "rank"),
        tasks=_whole(data, "tasks"),
        finished_at=_number(data, "finished_at"),
    )


def matching_rule(facts: Facts, rules: Iterable[Rule]) -> tuple[Rule, str] | None:
    """The first rule that holds, and the facts it holds for in words."""
    for rule in rules:
        enough = any if rule.any_fact else all
        if enough(_holds(facts, name, wanted) for name, wanted in rule.facts.items()):
            met = [name for name, wanted in rule.facts.items() if _holds(facts, name, wanted)]
            return rule, _evidence(facts, met)
    return None


def _holds(facts: Facts, name: str, wanted: Any) -> bool:
    if name == "reason_prefix":
        return any(facts.reason.lower().startswith(prefix) for prefix in wanted)
    have = getattr(facts, name)
    if isinstance(wanted, bool):
        return bool(have)
    if isinstance(wanted, str):
        return re.search(wanted, have[-65536:], re.IGNORECASE) is not None
    if isinstance(have, tuple):
        return any(one in wanted for one in have)
    return (have.lower() if isinstance(have, str) else have) in wanted


def _evidence(facts: Facts, met: list[str]) -> str:
    """The agent's own message, where it stands with the code that the rule asks for."""
    if "error_code" in met and facts.message:
        return f"{facts.error_code}: {facts.message}"[:MAX_EVIDENCE_CHARS]
    return "; ".join(_words(facts, name) for name in met)


def _words(facts: Facts, name: str) -> str:
    if name in ("memory_full", "memory_near_limit"):
        return f"peak {facts.memory_peak_mb:,.0f} MB of {facts.memory_limit_mb:,.0f} MB"
    name = "reason" if name == "reason_prefix" else name
    have = getattr(facts, name)
    return f"{name} = {have if not isinstance(have, tuple) else ', '.join(map(str, have))}"


def _exit_code(data: Mapping[str, Any]) -> int | None:
    signal = _whole(data, "signal", "exit_signal")
    if signal and 0 < signal < 128:
        return 128 + signal
    return _whole(data, "exit_code", "exitCode", "user_exit")


def _xids(data: Mapping[str, Any]) -> tuple[int, ...]:
    found = data.get("xid", data.get("xids", ()))
    found = found if isinstance(found, list) else [found]
    return tuple(one for one in found if isinstance(one, int) and not isinstance(one, bool))


def _text(data: Mapping[str, Any], *names: str) -> str:
    return next((v for n in names if isinstance(v := data.get(n), str)), "")


def _true(data: Mapping[str, Any], *names: str) -> bool:
    return any(data.get(name) is True for name in names)


def _number(data: Mapping[str, Any], *names: str) -> float | None:
    found = (data.get(name) for name in names)
    return next((v for v in found if isinstance(v, int | float) and not isinstance(v, bool)), None)


def _whole(data: Mapping[str, Any], *names: str) -> int | None:
    number = _number(data, *names)
    return number if isinstance(number, int) else None
