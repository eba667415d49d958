"""What of the machine a test needs, and whether it is there."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from pathlib import Path

WEB_UI = Path(__file__).parents[2] / "platform/skep_platform/web/static/webui/index.html"


@cache
def missing(marker: str) -> str:
    """Why a test with this marker cannot run here, or "" when it can."""
    check = {"docker": _docker, "browser": _browser}.get(marker)
    return check() if check else ""


def must_be_complete() -> bool:
    """In CI a missing component is a failure, never a skipped test."""
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def _docker() -> str:
    import docker

    try:
        docker.from_env(timeout=60).ping()
    except docker.errors.DockerException as error:
        return f"no Docker engine answers ({error}); run scripts/bootstrap"
    return ""


def _browser() -> str:
    if not chromium():
        return "no Chromium here; run scripts/bootstrap"
    if not WEB_UI.exists():
        return "the web UI is not built; run make webui"
    return ""


def chromium() -> str:
    """Path of the browser, or ""."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or ""


def prometheus(program: str) -> str:
    """Path of "prometheus" or "promtool", as scripts/bootstrap has unpacked them."""
    return shutil.which(program) or str(Path(sys.prefix) / "prometheus/usr/bin" / program)
