"""The node's GPUs: what the probe sees, which are quarantined, and who holds which."""

from __future__ import annotations

from collections.abc import Iterable

from skep_agent.protocol import Gpu


class GpuTable:
    def __init__(self) -> None:
        self.seen: dict[str, Gpu] = {}  # by UUID, as the probe reports
        self.quarantined: dict[str, str] = {}  # UUID -> problem found by the agent itself
        self.holders: dict[str, str] = {}  # UUID -> attempt id; at most one holder per GPU

    def view(self) -> list[Gpu]:
        """Return the GPUs as the server is sent them."""
        return [
            gpu.model_copy(update={"healthy": False, "problem": self.quarantined[gpu.uuid]})
            if gpu.healthy and gpu.uuid in self.quarantined
            else gpu
            for gpu in self.seen.values()
        ]

    def see(self, gpus: Iterable[Gpu]) -> bool:
        """Take the probe's word; True when it differs from before."""
        seen = {gpu.uuid: gpu for gpu in gpus}
        changed = seen != self.seen
        self.seen = seen
        return changed

    def quarantine(self, problems: dict[str, str]) -> bool:
        """Add GPUs to the quarantine, with the reason of each. Returns whether any of them is
        new."""
        new = {uuid: text for uuid, text in problems.items() if uuid not in self.quarantined}
        self.quarantined |= new
        return bool(new)

    def lift(self, uuids: Iterable[str]) -> bool:
        """End the quarantine of those that are in it; True when there was one."""
        lifted = [uuid for uuid in uuids if self.quarantined.pop(uuid, None)]
        return bool(lifted)

    def hold(self, attempt_id: str, uuids: Iterable[str]) -> tuple[str, ...]:
        """Give the free ones of `uuids` to the attempt; returns those."""
        free = tuple(uuid for uuid in dict.fromkeys(uuids) if uuid not in self.holders)
        self.holders |= dict.fromkeys(free, attempt_id)
        return free

    def release(self, attempt_id: str, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            if self.holders.get(uuid) == attempt_id:
                del self.holders[uuid]

    def why_not(self, uuids: list[str]) -> str:
        """Why these GPUs cannot be given to an attempt now; "" when they can."""
        if len(set(uuids)) != len(uuids):
            return "a GPU is listed twice"
        for uuid in uuids:
            gpu = self.seen.get(uuid)
            if gpu is None:
                return f"this node has no GPU {uuid}"
            if not gpu.healthy:
                return f"GPU {uuid} is unhealthy: {gpu.problem}"
            if uuid in self.quarantined:
                return f"GPU {uuid} is in quarantine: {self.quarantined[uuid]}"
            if uuid in self.holders:
                return f"GPU {uuid} is still held by attempt {self.holders[uuid]}"
        return ""
