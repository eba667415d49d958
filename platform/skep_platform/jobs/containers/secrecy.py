"""What a job keeps secret, on its way into its containers and out of what they print."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_plus

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skep_jobfile.secret_values import names_secrets, render_secrets, secret_texts
from skep_platform.core import vault

MIN_MASKED = 4  # characters; shorter ones are everywhere
PLAIN = frozenset({"true", "false"})


@dataclass(frozen=True, slots=True)
class Secrets:
    """Opened, of one job."""

    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    auths: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    @classmethod
    def opened(cls, sealed: bytes | memoryview | None) -> Secrets:
        """Raises VaultLocked."""
        if sealed is None:
            return cls()
        known = json.loads(vault.open(sealed))
        return cls(known.get("secrets") or {}, known.get("auths") or {})

    def rendered(self, text: str) -> tuple[str, bool]:
        """The text as the container gets it, and whether it tells a secret now."""
        return render_secrets(text, self.values), names_secrets(text)

    def masks(self) -> list[str]:
        """What no log line may show, longest first."""
        return masks_of(secret_texts(self.values))


def masks_of(texts: Iterable[str]) -> list[str]:
    """These texts, each of their lines, and what they are when they are encoded."""
    lines = {line.strip() for text in texts for line in (text, *text.splitlines())}
    found = {form for line in lines - PLAIN if len(line) >= MIN_MASKED for form in _forms(line)}
    return sorted(found, key=lambda form: (-len(form), form))


def _forms(text: str) -> Iterator[str]:
    yield from (text, quote(text, safe=""), quote(text), quote_plus(text), json.dumps(text)[1:-1])
    data = text.encode()
    yield base64.b64encode(data).decode()
    yield base64.urlsafe_b64encode(data).decode()
    for before in range(3):  # within "user:password", it may begin at any of three places
        whole = base64.b64encode(bytes(before) + data).decode()
        inner = whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if len(inner) >= MIN_MASKED:
            yield inner


def ssh_key(job_id: object, attempt: int) -> Ed25519PrivateKey:
    """Of one job attempt. It is made from the server's key, the same each time: nothing to store,
    and no other job's containers know it."""
    return Ed25519PrivateKey.from_private_bytes(vault.derive(f"ssh.{job_id}.{attempt}"))
