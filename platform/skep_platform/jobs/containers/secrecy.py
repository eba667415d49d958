"""What a job keeps secret, on its way into its containers and out of what they print."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skep_jobfile.secret_values import masks_of, names_secrets, render_secrets, secret_texts
from skep_platform.core import vault


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


def ssh_key(job_id: object, attempt: int) -> Ed25519PrivateKey:
    """Of one job attempt. It is made from the server's key, the same each time: nothing to store,
    and no other job's containers know it."""
    return Ed25519PrivateKey.from_private_bytes(vault.derive(f"ssh.{job_id}.{attempt}"))
