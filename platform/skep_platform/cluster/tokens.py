"""Secrets that machines hold: random, told apart by a prefix, kept only as SHA-256.

256 random bits need no slow hash: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import secrets

JOIN_PREFIX = "skj_"
CREDENTIAL_PREFIX = "skn_"


def new_secret(prefix: str) -> str:
    return prefix + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """SHA-256 in hex; any text is accepted, also one that is not valid Unicode."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
