"""Runs the cases of a file step by step, and never stops at a failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from skep_scheduler.cells.config import read_config
from skep_scheduler.cells.health import lost
from skep_scheduler.cells.invariants import violations
from skep_scheduler.cells.problems import ConfigError
from skep_scheduler.cells.shape import FREE, Config
from skep_scheduler.cells.state import CellState
from skep_scheduler.replay.hived_order import HivedOrder
from skep_scheduler.replay.session import Bound, Result, Session, Victims, Waiting
from skep_scheduler.replay.specs import UserError


def describe(result: Result | None) -> dict[str, Any]:
    """Return a result in the words of the cases."""
    if isinstance(result, Bound):
        placed = result.tasks[result.slot]
        group = [
            {
                "node": s.node,
                "leaf_cells": list(s.devices),
                "preassigned_cell_type": s.cell_type,
            }
            for s in result.tasks
        ]
        bind = {"node": placed.node, "leaf_cells": list(placed.devices), "chain": result.chain}
        return {"bind": {**bind, "group": group}}
    if isinstance(result, Victims):
        return {"preempt": {"all_victims_by_node": result.pods}}
    if isinstance(result, Waiting):
        return {"wait": {"code": result.code, "message": result.message}}
    return {}


def matches(expected: Mapping[str, Any], result: Result | None, panic: str | None) -> bool:
    """Every key must hold; a key that is not known does not."""
    if "panic" not in expected and panic is not None:
        return False
    return all(
        key in _CHECKS and _CHECKS[key](value, result, panic) for key, value in expected.items()
    )


def _bind(expected: Any, result: Result | None, panic: str | None) -> bool:
    if not isinstance(result, Bound):
        return False
    if expected is True:
        return True
    got = describe(result)["bind"]
    return all(_same(got.get(key), value) for key, value in expected.items())


def _same(got: object, expected: object) -> bool:
    """Return devices in their order; the places of a gang in any."""
    if isinstance(got, list) and isinstance(expected, list) and got and isinstance(got[0], dict):
        return sorted(got, key=repr) == sorted(expected, key=repr)
    return got == expected


def _no_bind(expected: Any, result: Result | None, panic: str | None) -> bool:
    return isinstance(result, Bound) != bool(expected)


def _subset(expected: Any, result: Result | None, panic: str | None) -> bool:
    if not isinstance(result, Victims):
        return not expected
    return result.names <= set(expected)


def _exactly(expected: Any, result: Result | None, panic: str | None) -> bool:
    return isinstance(result, Victims) and result.names == set(expected)


def _wait(expected: Any, result: Result | None, panic: str | None) -> bool:
    return isinstance(result, Waiting) == bool(expected)


def _preempt(expected: Any, result: Result | None, panic: str | None) -> bool:
    return isinstance(result, Victims) == bool(expected)


def _panic(expected: Any, result: Result | None, panic: str | None) -> bool:
    return panic == expected


_CHECKS: dict[str, Callable[[Any, Result | None, str | None], bool]] = {
    "bind": _bind,
    "no_bind": _no_bind,
    "preempt": _preempt,
    "preempt_victims_subset_of": _subset,
    "preempt_victims_exactly": _exactly,
    "wait": _wait,
    "panic": _panic,
}


def check_assert(
    state: CellState, step: Mapping[str, Any], last: Result | None
) -> tuple[Any, Any, bool]:
    """Return expected, got, and whether they agree."""
    name = str(step["assert"])
    group = state.groups.get(str(step.get("group", "")))
    if name == "group_absent":
        return "absent", group.state if group else "absent", group is None
    if name == "group_state":
        got = group.state if group else "absent"
        return step.get("state"), got, got == step.get("state")
    if name == "group_lazy_preempted":
        wanted = _first(step, ("lazy_preempted", "value", "expected"), True)
        is_lazy = group is not None and group.downgraded_by is not None
        return wanted, is_lazy, group is not None and is_lazy == bool(wanted)
    if name == "last_result_has_bind":
        return "bind", describe(last), isinstance(last, Bound)
    if name == "leaf_cells_used_or_free":
        return _leaf_cells(state, step)
    if name == "vc_preassigned_cells_health":
        return _health(state, step)
    return name, "unknown assertion", False


def _first(step: Mapping[str, Any], names: tuple[str, ...], default: Any = None) -> Any:
    return next((step[name] for name in names if name in step), default)


def _leaf_cells(state: CellState, step: Mapping[str, Any]) -> tuple[Any, Any, bool]:
    wrong = {}
    for name in step["cells"]:
        node, _, index = str(name).rpartition(":")
        leaf = state.leaves.get((node, int(index) if index.isdecimal() else index))
        if leaf is None:
            wrong[name] = "no such cell"
        elif leaf.holder is not None or (leaf.priority not in (FREE, step["used_priority"])):
            wrong[name] = f"{leaf.priority}, reserved: {leaf.holder is not None}"
    return f"free, or used at {step['used_priority']}", wrong or "as expected", not wrong


def _health(state: CellState, step: Mapping[str, Any]) -> tuple[Any, Any, bool]:
    """Of the cells of a VC that it has not pinned: those in use are as bad as what they are bound
    to; of the others as many are bad as cannot be had."""
    vc = str(_first(step, ("vc", "virtual_cluster", "virtualCluster")))
    chain, level = str(step["chain"]), int(step["level"])
    asked = str(next((v for k, v in step.items() if "health" in k.lower()), "Healthy"))
    wanted = "bad" if "bad" in asked.lower() else "healthy"
    domain = state.vcs[vc].chains[chain]
    roots = domain.by_level.get(level, [])
    healths = []
    if not _only_free(step):
        healths = [
            "bad" if root.physical.bad else "healthy" for root in roots if root.physical is not None
        ]
    bad = lost(state, vc, chain, level)
    free = sum(root.physical is None for root in roots)
    healths += ["bad"] * bad + ["healthy"] * (free - bad)
    return wanted, healths, all(health == wanted for health in healths)


def _only_free(step: Mapping[str, Any]) -> bool:
    """However it is spelled: `free_only: true`, `cells: free`."""
    return any(
        ("free" in key.lower() and value is True)
        or (isinstance(value, str) and "free" in value.lower())
        for key, value in step.items()
    )


Line = dict[str, Any]


def replay_file(path: Path) -> Iterator[Line]:
    """Return one line per expectation. Raises OSError or ValueError if it cannot be read."""
    with path.open(encoding="utf-8") as file:
        data = json.load(file)
    if not isinstance(data, dict) or not isinstance(data.get("cases"), list):
        raise ValueError("it has no list of cases")
    for number, case in enumerate(data["cases"]):
        try:
            runner = Runner(case, data.get("pods") or {}, path.parent)
        except Exception as error:
            yield _failed(str(number), 0, "case", None, error)
        else:
            yield from runner.run()


def load_config(folder: Path, name: str) -> Config:
    """Return a configuration by its file name, from `configs/` in `folder`, or beside it."""
    from ruamel.yaml import YAML

    base = Path(name).name
    candidates = [folder / "configs" / base, folder / name, folder / base]
    found = next((path for path in candidates if path.is_file()), candidates[0])
    with found.open(encoding="utf-8") as file:
        return read_config(YAML(typ="safe", pure=True).load(file))


class Runner:
    """One case. `pods` are the specs by name, of the file and of the case."""

    def __init__(self, case: Mapping[str, Any], pods: Mapping[str, Any], folder: Path) -> None:
        self.name = str(case.get("id") or case.get("name") or case.get("case"))
        self.steps = list(case.get("steps") or [])
        self.pods = {**pods, **(case.get("pods") or {})}
        self.folder = folder
        self.session: Session | None = None
        self.last: Result | None = None

    def run(self) -> Iterator[Line]:
        for number, step in enumerate(self.steps):
            if not isinstance(step, Mapping):
                yield _failed(self.name, number, "step", step, TypeError("it is no mapping"))
                continue
            op = str(step.get("op"))
            try:
                verdicts = getattr(self, f"_op_{op}", self._unknown)(step)
            except Exception as error:  # a failed line, never the end of the run
                expected = step.get("expect", step.get("assert"))
                yield _failed(self.name, number, op, expected, error)
                verdicts = []
            for verdict in [*verdicts, *self._validate()]:
                yield _line(self.name, number, *verdict)

    def _validate(self) -> list[tuple[str, Any, Any, bool]]:
        if self.session is None:
            return []
        try:
            found = list(violations(self.session.state))
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        return [("validate", "no violation", found, False)] if found else []

    @property
    def _live(self) -> Session:
        if self.session is None:
            raise RuntimeError("there is no scheduler")
        return self.session

    def _spec(self, step: Mapping[str, Any]) -> Mapping[str, Any]:
        if "spec" in step:
            self.pods[step["pod"]] = step["spec"]
        spec: Mapping[str, Any] = self.pods[step["pod"]]
        return spec

    def _unknown(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        return [(str(step.get("op")), step.get("expect"), "unknown operation", False)]

    def _op_comment(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        return []

    def _op_define_pod(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        self.pods[step["pod"]] = step["spec"]
        return []

    def _op_new_scheduler(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        panic, got = None, {}
        self.last = self.session = None
        try:
            config = load_config(self.folder, str(step["config"]))
            self.session = Session(CellState(config, HivedOrder()))
        except ConfigError as error:
            panic, got = "platform_error", {"panic": str(error)}
        expected = step.get("expect")
        if expected is None and panic is None:
            return []
        return [("new_scheduler", expected, got, matches(expected or {}, None, panic))]

    def _op_restart_with_config(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        self._live.reconfigure(load_config(self.folder, str(step["config"])))
        return []

    def _op_set_all_nodes_healthy(
        self, step: Mapping[str, Any]
    ) -> list[tuple[str, Any, Any, bool]]:
        for node in self._live.state.nodes:
            self._live.set_node(node, healthy=True)
        return []

    def _op_set_node_healthy(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        self._live.set_node(str(step["node"]), healthy=True)
        return []

    def _op_set_node_bad(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        self._live.set_node(str(step["node"]), healthy=False)
        return []

    def _op_schedule(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        pod, panic = str(step["pod"]), None
        self.last = None
        got: dict[str, Any] = {}
        try:
            self.last = self._live.schedule(
                pod, self._spec(step), step.get("suggested_nodes"), self._phase(step)
            )
            got = describe(self.last)
        except UserError as error:
            panic, got = "user_error", {"panic": str(error)}
        if step.get("then"):
            self._follow_up(pod, self.last)
        expected = step.get("expect")
        if expected is None:
            return []
        return [("schedule", expected, got, matches(expected, self.last, panic))]

    def _phase(self, step: Mapping[str, Any]) -> str:
        return str(step.get("phase", "Preempting"))

    def _follow_up(self, pod: str, result: Result | None) -> None:
        """What the reference's v2 tests do with every answer."""
        if isinstance(result, Bound):
            self._live.adopt(pod, self.pods[pod], result)
        elif isinstance(result, Victims):
            for victim in sorted(result.names):
                self._live.delete_allocated_pod(victim)

    def _op_schedule_gang(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        bound: list[str] = []
        binds: dict[str, Any] = {}
        self.last, panic = None, None
        got: dict[str, Any] = {}
        for entry in step["pods"]:
            pod = str(entry["pod"])
            try:
                self.last = self._live.schedule(
                    pod, self._spec(entry), step.get("suggested_nodes"), self._phase(step)
                )
            except UserError as error:
                self.last, panic, got = None, "user_error", {"panic": str(error)}
                break
            got = describe(self.last)
            if not isinstance(self.last, Bound):
                break
            self._live.adopt(pod, self.pods[pod], self.last)
            bound.append(pod)
            binds[pod] = got["bind"]
        got = {**got, "bound": bound, "binds": binds}
        expected = step.get("expect")
        if expected is None:
            return []
        passed = _gang_matches(expected, got, self.last, panic, len(step["pods"]))
        return [("schedule_gang", expected, got, passed)]

    def _op_delete_group(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        self._live.delete_group(str(step["group"]))
        return []

    def _op_add_allocated_pod(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        self._live.add_allocated_pod(str(step["pod"]), self._spec(step), step["bind_info"])
        return []

    def _op_delete_allocated_pod(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        self._live.delete_allocated_pod(str(step["pod"]))
        return []

    def _op_delete_unallocated_pod(
        self, step: Mapping[str, Any]
    ) -> list[tuple[str, Any, Any, bool]]:
        self._live.delete_unallocated_pod(str(step["pod"]), self._spec(step))
        return []

    def _op_assert(self, step: Mapping[str, Any]) -> list[tuple[str, Any, Any, bool]]:
        expected, got, passed = check_assert(self._live.state, step, self.last)
        return [(f"assert {step['assert']}", expected, got, passed)]


def _gang_matches(
    expected: Mapping[str, Any],
    got: Mapping[str, Any],
    last: Result | None,
    panic: str | None,
    pods: int,
) -> bool:
    """Beside the keys of `schedule`, for the pod that was asked last: `bound` (how many, which, or
    whether all), `all_bound`, `binds` by pod."""
    rest = dict(expected)
    whole = len(got["bound"]) == pods
    passed = True
    for key in ("bound", "all_bound", "all_bind"):
        if key in rest:
            passed = passed and _bound_matches(rest.pop(key), got["bound"], whole)
    for pod, bind in (rest.pop("binds", None) or {}).items():
        mine = got["binds"].get(pod) or {}
        passed = passed and all(mine.get(key) == value for key, value in bind.items())
    return passed and matches(rest, last, panic)


def _bound_matches(expected: object, bound: list[str], whole: bool) -> bool:
    if isinstance(expected, bool):
        return whole == expected
    return expected == (len(bound) if isinstance(expected, int) else bound)


def _line(case: str, step: int, op: str, expected: Any, got: Any, passed: bool) -> Line:
    return {
        "case": case,
        "step": step,
        "op": op,
        "expected": expected,
        "got": got,
        "pass": bool(passed),
    }


def _failed(case: str, step: int, op: str, expected: Any, error: Exception) -> Line:
    got = {"exception": type(error).__name__, "message": str(error)}
    return _line(case, step, op, expected, got, passed=False)
