"""A certified OpenID provider, run by Node."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "webui/node_modules/oidc-provider/lib/index.js"
CLIENT_ID = "skep"
CLIENT_SECRET = "a-secret-of-the-client"


@contextmanager
def oidc_provider(callback: str) -> Iterator[str]:
    """Run a provider that leads back to `callback`; yield its issuer. It logs everyone in as the
    account that was put to `/account` last."""
    node = shutil.which("node")
    assert node, "Node is missing: scripts/bootstrap web"
    assert MODULE.exists(), "oidc-provider is missing: scripts/bootstrap web"
    process = subprocess.Popen(
        [node, str(Path(__file__).with_suffix(".mjs")), str(MODULE), callback],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    try:
        yield next(line.strip() for line in lines if line.startswith("http://"))
    finally:
        process.stdin.close()
        process.wait(60)
