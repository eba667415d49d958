"""Logging in by the password of an LDAP directory, such as OpenLDAP or Active Directory.

A login searches the user with the service's own credentials and binds as what it finds; the groups
are read by the service again. A search that fails is an error and never an empty answer: a user who
seemed to have left all groups would lose jobs. Passwords of local accounts are never sent there.

Needs the extra `skep[ldap]`, which brings python-ldap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog
from django.conf import settings

from skep_platform.accounts import external
from skep_platform.accounts.models import User
from skep_platform.core.errors import SkepError, Unavailable
from skep_platform.core.serving import give_connection_back
from skep_platform.env_settings import is_loopback

log = structlog.get_logger(__name__)
TIMEOUT_S = 5.0
MAX_GROUPS = 1000


@dataclass(frozen=True, slots=True)
class Entry:
    """What the directory has of a user or a group; names of attributes are in lower case."""

    dn: str
    attributes: Mapping[str, list[bytes]]

    def text(self, name: str) -> str:
        """Return the first value of an attribute; bytes that are no text as hexadecimal digits."""
        [value] = self.attributes.get(name.lower(), [])[:1] or [b""]
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return value.hex()
        return text if text.isprintable() else value.hex()


def is_on() -> bool:
    """Return whether a directory is set."""
    return bool(settings.SKEP_LDAP_URI)


def log_in(username: str, password: str) -> User | None:
    """Return the user of the directory who has this name and password, made at the first login;
    None for a wrong name or password. Raises Unavailable `ldap_unavailable`, SkepError
    `ldap_attribute_missing`, and what `external.user_of` does."""
    if not username or not password or "\0" in username + password:
        return None  # a bind without a password succeeds: it is an anonymous one (RFC 4513, 5.1.2)
    with _directory() as directory:
        entry = _find(directory, username)
        if entry is None or not _password_is_right(entry.dn, password):
            return None
        names = _groups(directory, entry, username) if settings.SKEP_LDAP_GROUP_BASE else None
    uid = _needed(entry, settings.SKEP_LDAP_UID_ATTRIBUTE)[: external.MAX_UID]
    name = _needed(entry, settings.SKEP_LDAP_USERNAME_ATTRIBUTE)
    email = external.valid_email(entry.text(settings.SKEP_LDAP_EMAIL_ATTRIBUTE))
    user = external.user_of(external.LDAP, uid, name, email, names)
    user.login_method = external.LDAP
    return user


def enabled(uids: Sequence[str]) -> set[str]:
    """Return which of these UIDs belong to entries that could log in. Raises Unavailable."""
    from ldap.filter import escape_filter_chars

    attribute = settings.SKEP_LDAP_UID_ATTRIBUTE
    values = [escape_filter_chars(uid) for uid in uids]
    values += [escaped for uid in uids if (escaped := _escaped_bytes(uid))]
    wanted = "".join(f"({attribute}={value})" for value in values)
    template = f"(&(|{wanted.replace('%', '%%')}){settings.SKEP_LDAP_USER_FILTER})"
    with _directory() as directory:
        base = settings.SKEP_LDAP_USER_BASE
        found = _search(directory, base, template, {}, [attribute], any_user=True)
    return {entry.text(attribute)[: external.MAX_UID] for entry in found}


def _escaped_bytes(uid: str) -> str:
    """Return the value of a filter for a UID that `Entry.text` wrote as hexadecimal digits; "" for
    others."""
    try:
        return "".join(f"\\{byte:02x}" for byte in bytes.fromhex(uid)) if uid.isalnum() else ""
    except ValueError:
        return ""


def _needed(entry: Entry, attribute: str) -> str:
    value = entry.text(attribute)
    if not value:
        message = f"The directory has no {attribute} of this user; ask an admin."
        raise SkepError(message, code="ldap_attribute_missing", attribute=attribute)
    return value


def _find(directory: Any, username: str) -> Entry | None:
    wanted = [
        settings.SKEP_LDAP_UID_ATTRIBUTE,
        settings.SKEP_LDAP_USERNAME_ATTRIBUTE,
        settings.SKEP_LDAP_EMAIL_ATTRIBUTE,
    ]
    fields = {"user": username[:150]}
    found = _search(
        directory, settings.SKEP_LDAP_USER_BASE, settings.SKEP_LDAP_USER_FILTER, fields, wanted
    )
    if len(found) > 1:
        log.warning("ldap_ambiguous_user", entries=len(found))
        return None
    return found[0] if found else None


def _groups(directory: Any, user: Entry, username: str) -> list[str]:
    attribute = settings.SKEP_LDAP_GROUP_ATTRIBUTE
    fields = {"dn": user.dn, "user": user.text(settings.SKEP_LDAP_USERNAME_ATTRIBUTE) or username}
    found = _search(
        directory,
        settings.SKEP_LDAP_GROUP_BASE,
        settings.SKEP_LDAP_GROUP_FILTER,
        fields,
        [attribute],
    )
    return [entry.text(attribute) for entry in found[:MAX_GROUPS]]


def _search(
    directory: Any,
    base: str,
    template: str,
    fields: Mapping[str, str],
    attributes: list[str],
    *,
    any_user: bool = False,
) -> list[Entry]:
    """Search a whole subtree; the fields are escaped, so that they stay values (RFC 4515).
    `any_user`: the field `user` matches every name."""
    import ldap
    from ldap.filter import escape_filter_chars

    values = {name: escape_filter_chars(value) for name, value in fields.items()}
    query = template % (values | {"user": "*"} if any_user else values)
    found = directory.search_ext_s(
        base, ldap.SCOPE_SUBTREE, query, attributes, timeout=TIMEOUT_S, sizelimit=MAX_GROUPS
    )
    return [  # what has no DN is a referral to another server, which is not followed
        Entry(dn, {name.lower(): values for name, values in attributes.items()})
        for dn, attributes in found
        if dn
    ]


def _password_is_right(dn: str, password: str) -> bool:
    """Bind as the user, on a connection of its own. A directory that refuses for another reason,
    such as a locked account, refuses."""
    import ldap

    refusals = (
        *(ldap.INVALID_CREDENTIALS, ldap.UNWILLING_TO_PERFORM, ldap.INSUFFICIENT_ACCESS),
        *(ldap.INAPPROPRIATE_AUTH, ldap.CONSTRAINT_VIOLATION, ldap.NO_SUCH_OBJECT),
    )
    connection = _connect()
    try:
        connection.simple_bind_s(dn, password)
    except refusals:
        return False
    finally:
        connection.unbind_ext_s()
    return True


@contextmanager
def _directory() -> Iterator[Any]:
    """Give a connection that is bound as the service. Raises Unavailable for every error on it."""
    import ldap

    give_connection_back()  # a directory that hangs would take all of them
    try:
        connection = _connect()
        try:
            if settings.SKEP_LDAP_BIND_DN:
                connection.simple_bind_s(settings.SKEP_LDAP_BIND_DN, _bind_password())
            yield connection
        finally:
            connection.unbind_ext_s()
    except ldap.FILTER_ERROR:
        raise _unavailable("SKEP_LDAP_USER_FILTER or SKEP_LDAP_GROUP_FILTER is malformed") from None
    except (ldap.LDAPError, OSError) as error:
        raise _unavailable(type(error).__name__) from None


def _bind_password() -> str:
    path = settings.SKEP_LDAP_BIND_PASSWORD_FILE
    return Path(path).read_text().rstrip("\r\n") if path else ""


def _connect() -> Any:
    """Open a connection, encrypted unless it stays on this machine; its certificate is checked."""
    import ldap

    connection = ldap.initialize(settings.SKEP_LDAP_URI)
    connection.set_option(ldap.OPT_PROTOCOL_VERSION, ldap.VERSION3)
    connection.set_option(ldap.OPT_REFERRALS, 0)
    connection.set_option(ldap.OPT_NETWORK_TIMEOUT, TIMEOUT_S)
    connection.set_option(ldap.OPT_TIMEOUT, TIMEOUT_S)
    connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
    if settings.SKEP_LDAP_CA_FILE:
        connection.set_option(ldap.OPT_X_TLS_CACERTFILE, settings.SKEP_LDAP_CA_FILE)
    connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)  # last: takes what was set before
    parts = urlsplit(settings.SKEP_LDAP_URI)
    local = is_loopback(parts.hostname or "")
    if parts.scheme == "ldap" and (settings.SKEP_LDAP_START_TLS or not local):
        connection.start_tls_s()
    return connection


def _unavailable(reason: str) -> Unavailable:
    log.warning("ldap_unavailable", reason=reason)
    message = "The directory cannot be asked now; try again later, or ask an admin."
    return Unavailable(message, code="ldap_unavailable")
