"""Which server, which token: from the environment, else from a file that only we can read.

$XDG_CONFIG_HOME/skep/config.json holds the present server and a token per server;
SKEP_SERVER and SKEP_TOKEN come before it. In a container of a job with an API token the server is
in SKEP_URL.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skep_client.errors import SkepError

LOCAL_SERVER = "http://127.0.0.1:8470"


@dataclass(frozen=True, slots=True)
class Login:
    server: str
    token: str


def login() -> Login:
    """`token` is "" before a login."""
    stored = _read()
    given = os.environ.get("SKEP_SERVER") or os.environ.get("SKEP_URL")
    server = given or stored.get("server") or LOCAL_SERVER
    server = server.strip().rstrip("/")
    # Secrets of CI systems and Kubernetes often end in the line end of a file.
    token = os.environ.get("SKEP_TOKEN", "").strip() or stored.get("tokens", {}).get(server, "")
    return Login(server, token)


def remember(login: Login) -> Path:
    """Store a login and make its server the present one; tokens of other servers are kept."""
    stored = _read()
    tokens = {**stored.get("tokens", {}), login.server: login.token}
    return _write({"server": login.server, "tokens": tokens})


def _write(stored: dict[str, Any]) -> Path:
    path = config_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    text = json.dumps(stored, indent=2)
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text + "\n")
    unfinished.rename(path)
    return path


def forget(server: str) -> None:
    """Remove the token of a server from the file, if it is there."""
    stored = _read()
    tokens = stored.get("tokens", {})
    if tokens.pop(server, None) is not None:
        _write({"server": stored.get("server", server), "tokens": tokens})


def stored_token(server: str) -> str:
    """Return the token remembered for this server, or ""."""
    return str(_read().get("tokens", {}).get(server, ""))


def config_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "skep/config.json"


def _read() -> dict[str, Any]:
    """Raises SkepError "config_damaged"."""
    path = config_file()
    try:
        stored = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        stored = None
    if not isinstance(stored, dict) or not isinstance(stored.get("tokens", {}), dict):
        raise SkepError(400, "config_damaged", f"{path} is damaged: remove it, and log in again.")
    return stored
