"""The secrets of one job, opened: what is rendered into its containers and masked in its logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skep_jobfile.secret_values import masks_of, names_secrets, render_secrets, secret_texts
from skep_platform.core import encryption


@dataclass(frozen=True, slots=True)
class Secrets:
    """What one job keeps secret, opened."""

    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    auths: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    api_token: str = field(default="", repr=False)

    @classmethod
    def opened(
        cls, sealed: bytes | memoryview | None, token: bytes | memoryview | None = None
    ) -> Secrets:
        """Open the secrets of a row, and the API token of the job. Raises DecryptionFailed."""
        api_token = encryption.open(token).decode() if token is not None else ""
        known = json.loads(encryption.open(sealed)) if sealed is not None else {}
        return cls(known.get("secrets") or {}, known.get("auths") or {}, api_token)

    def rendered(self, text: str) -> tuple[str, bool]:
        """Return the text as the container gets it, and whether it has a secret now."""
        return render_secrets(text, self.values), names_secrets(text)

    def masks(self) -> list[str]:
        """Return what no log line may show, longest first."""
        texts = [*secret_texts(self.values), *filter(None, [self.api_token])]
        return masks_of(texts)
