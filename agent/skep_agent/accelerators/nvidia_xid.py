"""The driver's error messages ("XID") as they come.

Which of them make a GPU unfit is the choice of NVIDIA's own device plugin for Kubernetes
(k8s-device-plugin, internal/rm/health.go): all but those that a faulty program causes.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from typing import Any

import pynvml as nvml  # type: ignore[import-untyped]
import structlog

# A program's fault: illegal address or instruction, page fault, preemptive cleanup, ...
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
MEANING = {
    48: "double-bit ECC error",
    62: "internal micro-controller halt",
    63: "row remapping or page retirement",
    64: "row remapping or page retirement failed",
    74: "NVLink error",
    79: "fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained ECC error",
    95: "uncontained ECC error",
    119: "timeout of the GPU's system processor",
    120: "error of the GPU's system processor",
}
WAIT_MS = 500
RETRY_S = 5.0
REFUSED_S = 60.0  # after which GPUs that took no registration are asked again
PAUSE_S = 4 * WAIT_MS / 1000
MAX_SEEN = 1000  # not taken yet

log = structlog.get_logger(__name__)


class XidWatcher:
    """One thread, from the first `watch` to `close`. A problem stays until the agent is started
    anew: the GPU has to be looked at, or reset."""

    def __init__(self) -> None:
        self._problems: dict[str, str] = {}  # by UUID
        self._everywhere = ""
        self._seen: deque[tuple[str, int]] = deque(maxlen=MAX_SEEN)
        self._counts: Counter[tuple[str, int]] = Counter()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._wanted: frozenset[str] | None = None  # UUIDs; None: leave the driver alone
        self._idle = threading.Event()  # nothing of the driver is used
        self._idle.set()

    def watch(self, uuids: frozenset[str]) -> None:
        """Watch the GPUs that the driver lists now, which have these UUIDs."""
        self._wanted = uuids
        if self._thread is None and not self._ended.is_set():
            self._thread = threading.Thread(target=self._run, name="nvml-xid", daemon=True)
            self._thread.start()

    def pause(self) -> bool:
        """Leave the driver alone until `watch` is called. Returns whether that is so by now."""
        self._wanted = None
        return self._idle.wait(PAUSE_S)

    def problem(self, uuid: str) -> str:
        """ "" for a GPU that had none."""
        return self._problems.get(uuid) or self._everywhere

    def take(self) -> list[tuple[str, int]]:
        """Return all errors since the last call, also those of programs: UUID ("" if unknown) and
        number."""
        taken = []
        while self._seen:
            taken.append(self._seen.popleft())
        return taken

    def counts(self) -> dict[tuple[str, int], int]:
        """Return how often each GPU ("" if unknown) reported each number."""
        return dict(self._counts)

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=5 * WAIT_MS / 1000)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._idle.clear()
            try:
                self._watch()
            except nvml.NVMLError as error:
                log.warning("xid_watch_failed", error=str(error))
                self._ended.wait(RETRY_S)
            finally:
                self._idle.set()
            while self._wanted is None and not self._ended.is_set():
                self._ended.wait(WAIT_MS / 1000)

    def _watch(self) -> None:
        """Take events until `pause` or `close`. GPUs that come later are registered together with
        the others, in a new set: before the old one is freed, so that no error is missed."""
        events = None
        try:
            while not self._ended.is_set() and (wanted := self._wanted) is not None:
                old, events = events, nvml.nvmlEventSetCreate()
                try:
                    found = [_register(i, events) for i in range(nvml.nvmlDeviceGetCount())]
                finally:
                    if old is not None:
                        while self._next(old, 0):
                            pass
                        nvml.nvmlEventSetFree(old)
                again_at = time.monotonic() + REFUSED_S if None in found else float("inf")
                while self._wanted == wanted and time.monotonic() < again_at:
                    if not any(found):  # no GPU here reports its errors
                        self._ended.wait(WAIT_MS / 1000)
                    else:
                        self._next(events, WAIT_MS)
                    if self._ended.is_set():
                        break
        finally:
            if events is not None:
                nvml.nvmlEventSetFree(events)

    def _next(self, events: Any, wait_ms: int) -> bool:
        """Take one event. Returns whether there was one."""
        try:
            event = nvml.nvmlEventSetWait(events, wait_ms)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return False
            raise
        if event.eventType == nvml.nvmlEventTypeXidCriticalError:
            self._note(event.device, event.eventData)
        return True

    def _note(self, device: Any, xid: int) -> None:
        try:
            uuid = nvml.nvmlDeviceGetUUID(device)
        except nvml.NVMLError:
            uuid = ""
        self._seen.append((uuid, xid))
        self._counts[uuid, xid] += 1
        if xid in APPLICATION_XIDS:
            return
        text = f"XID {xid}: {MEANING[xid]}" if xid in MEANING else f"XID {xid}"
        if uuid:
            self._problems.setdefault(uuid, text)
        else:  # a GPU that cannot even say which it is: none can be trusted
            self._everywhere = f"{text} of an unknown GPU of this node"
        log.warning("gpu_xid", xid=xid, problem=text)


def _register(index: int, events: Any) -> bool | None:
    """Return False for a GPU that does not report its errors, None for one that refuses now."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        wanted = nvml.nvmlEventTypeXidCriticalError
        if not nvml.nvmlDeviceGetSupportedEventTypes(handle) & wanted:
            return False
        nvml.nvmlDeviceRegisterEvents(handle, wanted, events)
    except nvml.NVMLError as error:
        return False if error.value == nvml.NVML_ERROR_NOT_SUPPORTED else None
    return True
