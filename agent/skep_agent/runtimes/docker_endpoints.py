"""All that the agent asks of a Docker engine: the allow list of a socket proxy before it.

`{}` is one path segment, `{path}` one or more. The version in front of a path is left out.
"""

from __future__ import annotations

import re
from functools import cache

# Method, path, what for. tests/docker/test_endpoints.py runs tasks through a proxy with this list.
ENDPOINTS: tuple[tuple[str, str, str], ...] = (
    ("GET", "/version", "which version of the API both sides speak; runc's version"),
    ("GET", "/info", "CPUs, storage driver, where containers are kept"),
    ("GET", "/events", "ends of this node's containers"),
    ("GET", "/images/json", "what was there before a pull with credentials"),
    ("GET", "/images/{path}/json", "the image of an attempt"),
    ("POST", "/images/create", "pull"),
    ("POST", "/images/{path}/tag", "the mark of a private image"),
    ("DELETE", "/images/skep.local/private:{}", "taking that mark away"),
    ("POST", "/images/load", "a container that is saved as an image, as the next four"),
    ("POST", "/images/{path}/push", "to the registry of whoever asked"),
    ("DELETE", "/images/sha256:{}", "that image, by its id"),
    ("GET", "/containers/{}/changes", "what of its layer is the task's"),
    ("GET", "/containers/{}/export", "the layer"),
    ("GET", "/distribution/{path}/json", "whether a registry gives an image for these credentials"),
    ("GET", "/networks", "this node's bridges"),
    ("POST", "/networks/create", "a job's bridge"),
    ("DELETE", "/networks/{}", "the same, when it is unused"),
    ("GET", "/containers/json", "this node's containers"),
    ("POST", "/containers/create", "the body is built in isolation/create.py alone"),
    ("GET", "/containers/{}/json", "state and end"),
    ("HEAD", "/containers/{}/archive", "whether a folder is there"),
    ("GET", "/containers/{}/archive", "/etc/passwd, for the user's number"),
    ("PUT", "/containers/{}/archive", "files of the task, before its start"),
    ("POST", "/containers/{}/start", ""),
    ("POST", "/containers/{}/kill", "signals, and the end of a stop"),
    ("GET", "/containers/{}/logs", ""),
    ("GET", "/containers/{}/stats", ""),
    ("DELETE", "/containers/{}", "with its anonymous volumes"),
    ("POST", "/containers/{}/exec", "a shell beside the task"),
    ("POST", "/exec/{}/start", ""),
    ("POST", "/exec/{}/resize", ""),
    ("GET", "/exec/{}/json", "its exit code"),
)


def is_allowed(method: str, path: str) -> bool:
    """Return whether the agent may make this request; `path` is without version and query."""
    return any(method == known and _pattern(form).fullmatch(path) for known, form, _ in ENDPOINTS)


@cache
def _pattern(form: str) -> re.Pattern[str]:
    text = re.escape(form).replace(r"\{\}", "[^/]+").replace(r"\{path\}", ".+")
    return re.compile(text)
