"""Credentials in addresses such as `https://user:password@host/path`."""

from __future__ import annotations

import re

from skep_jobfile.secret_values import TAG

MASK = "******"
# ssh and git name an account of the server there, which is no secret by itself.
ACCOUNTS = frozenset({"ssh", "git", "git+ssh", "sftp"})
# Linear: between two "://" there is a slash, which ends what is looked at.
USER_INFO = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,20})://([^\s/?#@\"'<>]{1,1000})@")


def shows_credentials(url: str) -> bool:
    """Return whether an address shows a password, or a token in place of a user name. What
    templates fill in from secrets is not shown."""
    has_secret = TAG.search(url) is not None
    found = USER_INFO.match(TAG.sub("", url.strip()))
    if found is None:
        return False
    user, colon, password = found[2].partition(":")
    if password:
        return True
    if found[1].lower() in ACCOUNTS:
        return False
    return bool(user) and not (has_secret and colon)


def without_credentials(text: str) -> str:
    """Return the text with masks for user names and passwords in all addresses in it."""
    return USER_INFO.sub(_masked, text) if "://" in text and "@" in text else text


def _masked(found: re.Match[str]) -> str:
    _, _, password = found[2].partition(":")
    if found[1].lower() in ACCOUNTS and not password:
        return found[0]
    return f"{found[1]}://{MASK}@"
