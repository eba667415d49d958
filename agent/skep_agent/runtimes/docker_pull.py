"""A pull: its credentials, its progress, and its errors.

Credentials travel in one header of one call and are never stored on the node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skep_agent.containers import Progress, RuntimeFailure
from skep_agent.protocol import ImageSpec
from skep_agent.runtimes.docker_engine import Engine, EngineError

# Of a layer's work; the rest is unpacking.
DOWNLOAD_SHARE = 0.8
MOST = 99  # percent, while lines come
MAX_SAID = 500  # characters of what the engine says
_AUTH_WORDS = (
    "unauthorized",
    "authentication required",
    "no basic auth credentials",
    "incorrect username or password",
    "forbidden",
)
_MISSING_WORDS = ("manifest unknown", "not found", "not known to registry", "does not exist")


async def pull(engine: Engine, image: ImageSpec, progress: Callable[[Progress], None]) -> None:
    """Have the engine bring the image from its registry, cached or not; `progress` gets
    rising percents below 100."""
    name, tag = split_reference(image.reference)
    tracker = PullProgress()
    try:
        async with engine.lines(
            "POST", "/images/create", {"fromImage": name, "tag": tag}, auth_header(image)
        ) as lines:
            async for line in lines:
                if "error" in line:
                    raise EngineError(500, str(line["error"]))
                if tracker.see(line):
                    progress(tracker.progress)
    except EngineError as error:
        raise pull_failure(error, image) from None


def split_reference(reference: str) -> tuple[str, str]:
    """Name, and tag or digest: without one the engine would pull every tag there is."""
    name, at, digest = reference.partition("@")
    head, colon, tag = name.rpartition(":")
    if colon and "/" not in tag:
        return head, digest or tag
    return name, digest if at else "latest"


def auth_header(image: ImageSpec) -> dict[str, str]:
    """Return the header with the credentials; empty for none."""
    if not image.username:
        return {}
    from docker.auth import encode_header

    return {"X-Registry-Auth": encode_header(login(image)).decode()}


def login(image: ImageSpec) -> dict[str, str]:
    """Return the credentials as the SDK's `auth_config`; empty for none, so that it does not take
    those of the node's own administrator."""
    if not image.username:
        return {}
    return {"username": image.username, "password": image.password}


def pull_failure(error: EngineError, image: ImageSpec) -> RuntimeFailure:
    """Classify a failed pull by its text: the engine reports registry errors in no other way."""
    text = error.message.lower()
    denied = "denied" in text
    code = "image_pull"
    if any(word in text for word in _AUTH_WORDS) or (denied and image.username):
        code = "image_auth"
    # Docker Hub, of both: "pull access denied for X, repository does not exist or may require …"
    elif any(word in text for word in _MISSING_WORDS) or denied:
        code = "image_not_found"
    return EngineError(error.status, f"{image.reference}: {said_of(error)}").failure(code)


def said_of(error: EngineError) -> str:
    """What was said without the answer of whoever stands at the registry's address: its owner may
    not have meant it for the owner of the job."""
    before, body, _ = error.message.partition("response body")
    said = f"{before}response body (not shown)" if body else error.message
    return "".join(char if char.isprintable() else " " for char in said)[:MAX_SAID]


@dataclass(slots=True)
class _Layer:
    total: int = 0  # bytes; 0 while unknown
    done: float = 0.0  # 0 to 1
    here: int = 0  # bytes
    whole: bool = False  # all of it was downloaded


@dataclass(slots=True)
class PullProgress:
    """From the engine's lines about single layers to one rising number below 100: the pull is done
    when the engine ends its answer."""

    percent: int = 0
    _layers: dict[str, _Layer] = field(default_factory=dict)

    def see(self, line: dict[str, Any]) -> bool:
        """Take in one line of the engine. Returns whether the percentage rose."""
        status, layer_id = line.get("status", ""), line.get("id", "")
        if status == "Pulling fs layer":
            self._layers.setdefault(layer_id, _Layer())
        elif layer := self._layers.get(layer_id):
            self._update(layer, status, line.get("progressDetail") or {})
        percent = min(self._overall(), MOST)
        if percent <= self.percent:
            return False
        self.percent = percent
        return True

    @property
    def progress(self) -> Progress:
        layers = self._layers.values()
        known = all(layer.total or layer.whole for layer in layers)
        total = sum(layer.total for layer in layers) if known else 0
        return Progress(self.percent, sum(layer.here for layer in layers), total)

    def _update(self, layer: _Layer, status: str, detail: dict[str, Any]) -> None:
        current, total = detail.get("current") or 0, detail.get("total") or 0
        layer.total = max(layer.total, total)
        share = current / total if total else 0.0
        if status == "Downloading":
            layer.done = max(layer.done, DOWNLOAD_SHARE * share)
            layer.here = max(layer.here, current)
        elif status in ("Verifying Checksum", "Download complete"):
            layer.done = max(layer.done, DOWNLOAD_SHARE)
        elif status == "Extracting":
            layer.done = max(layer.done, DOWNLOAD_SHARE + (1 - DOWNLOAD_SHARE) * share)
        elif status == "Pull complete":
            layer.done = 1.0
        if layer.done >= DOWNLOAD_SHARE:
            layer.here, layer.whole = layer.total, True

    def _overall(self) -> int:
        """Return the percentage over all layers, weighed by size; a layer of unknown size counts as
        the mean of the known."""
        if not self._layers:
            return 0
        known = [layer.total for layer in self._layers.values() if layer.total]
        mean = sum(known) / len(known) if known else 1.0
        weights = [layer.total or mean for layer in self._layers.values()]
        done = sum(w * layer.done for w, layer in zip(weights, self._layers.values(), strict=True))
        return int(100 * done / sum(weights))
