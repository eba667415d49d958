"""Messages of the checks that a node runs before it is used: a part of the wire contract in
`protocol`."""

from __future__ import annotations

from typing import Literal

from skep_agent.inventory import Message


class CheckResult(Message):
    """How one check went. `numbers` are what it measured."""

    name: str  # "disk", "network", or "gpu" and its UUID
    passed: bool
    message: str = ""
    numbers: dict[str, float] = {}


class CheckReport(Message):
    """The results of the round that `NodeChecks` asked for."""

    type: Literal["check_report"] = "check_report"
    check_id: str
    results: list[CheckResult]


class NodeChecks(Message):
    """The round of checks that the node shall run now; "": none."""

    type: Literal["node_checks"] = "node_checks"
    check_id: str = ""
