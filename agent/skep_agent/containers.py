"""What core and runtimes both say of a container: how it is found, how it ended, why not."""

from __future__ import annotations

from dataclasses import dataclass


class RuntimeFailure(Exception):
    """A runtime operation failed. `code` is stable: image_not_found, image_auth, image_pull,
    engine_down, create_failed, start_failed, gpu_unavailable, port_conflict, spec_refused,
    disk_full, exec_failed, network_unavailable (the node cannot isolate tasks), container_gone
    (someone else removed it), storage_unavailable (the node cannot or may not mount it). Of a save
    as an image: not_running, save_too_large, save_has_secret, save_changed, save_failed,
    push_denied, push_failed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def require(ok: object, problem: str) -> None:
    """Check a property of a spec. Raises RuntimeFailure "spec_refused"."""
    if not ok:
        raise RuntimeFailure("spec_refused", f"This node does not run it: {problem}.")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pull or a push of an image is."""

    percent: int
    done: int = 0  # bytes of compressed layers that were carried so far
    total: int = 0  # of all that have to be; 0: not known yet


@dataclass(frozen=True, slots=True)
class SavedImage:
    """A container that was pushed as an image."""

    digest: str  # of its manifest
    size: int  # bytes of what the task changed, unpacked


@dataclass(frozen=True, slots=True)
class Exit:
    exit_code: int
    oom_killed: bool = False
    memory_peak_mb: int | None = None
    disk_full: bool = False  # the node's, at that time
    # Why the agent itself killed it, such as "disk_quota_exceeded", in a code and a sentence.
    error_code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """A container of ours as found on the node, described by its labels alone."""

    container_id: str
    attempt_id: str
    epoch: int
    job_id: str
    gpu_uuids: tuple[str, ...]
    status: str  # "created", "running" or "exited"
    exit: Exit | None = None
