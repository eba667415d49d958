"""Many users at once, from a CSV file: all of it or nothing.

The file is checked as a whole first, with one query for each kind of name in it, so that the answer
lists every bad row; then it is written in a constant number of statements.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.auth.hashers import make_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from skep_jobfile.plain import is_plain
from skep_platform.accounts import external, groups, names, services
from skep_platform.accounts.models import Group, GroupMember, User
from skep_platform.audit import services as audit
from skep_platform.audit.models import AuditEntry
from skep_platform.core.errors import Conflict, SkepError
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.tenancy import memberships
from skep_platform.tenancy.models import Role, RoleGrant, VirtualCluster

COLUMNS = ("username", "email", "groups", "virtual_clusters")
SEPARATOR = re.compile(r"[;\t|]")  # of other programs, or in other languages
MAX_CHARS = 1_000_000
MAX_ROWS = 5_000
MAX_PROBLEMS = 100  # that one answer lists


class RowProblem(NamedTuple):
    """What is wrong with a row: the line of the file, counted from 1 with the header."""

    line: int
    column: str
    code: str
    message: str


@dataclass(slots=True)
class ImportedUser:
    """A row of the file; `roles` by name of the virtual cluster."""

    line: int
    username: str
    email: str
    groups: list[str]
    roles: dict[str, str]
    is_new: bool = True
    reset_url: str | None = None


@dataclass(slots=True)
class _Known:
    """What the file names and the database has."""

    users: dict[str, User] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    vcs: dict[str, VirtualCluster] = field(default_factory=dict)


def import_users(actor: User, text: str, *, dry_run: bool = False) -> list[ImportedUser]:
    """Create the users of a CSV file, and add users to groups and virtual clusters. Users who are
    known keep what they have, and a higher role. New users have no password but a link to set one.
    Raises SkepError `import_invalid` with the bad rows, `import_too_large` and
    `import_unreadable`; nothing is changed then."""
    rows, problems = _read(text)
    known = _known(rows)
    problems += [problem for row in rows for problem in _check(row, known)]
    if problems:
        problems.sort()
        message = f"{_rows(problems)} cannot be imported; nothing was changed."
        shown = [problem._asdict() for problem in problems[:MAX_PROBLEMS]]
        raise SkepError(message, code="import_invalid", problems=shown, total=len(problems))
    for row in rows:
        row.is_new = row.username not in known.users
    if not dry_run:
        _write(actor, rows, known)
    return rows


def _read(text: str) -> tuple[list[ImportedUser], list[RowProblem]]:
    if len(text) > MAX_CHARS:
        message = f"A file has at most {MAX_CHARS:,} characters; this one has {len(text):,}."
        raise SkepError(message, code="import_too_large", most=MAX_CHARS, now=len(text))
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not is_plain(text):
        message = "Control characters are not taken; save the file as UTF-8."
        raise SkepError(message, code="import_unreadable")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    rows: list[ImportedUser] = []
    problems: list[RowProblem] = []
    try:
        problems += _check_header(reader.fieldnames or ())
        for fields in reader if not problems else ():
            if len(rows) + len(problems) >= MAX_ROWS:
                message = f"A file has at most {MAX_ROWS:,} rows: split it."
                raise SkepError(message, code="import_too_large", most=MAX_ROWS)
            row = _row(reader.line_num, fields, problems)
            if row is not None:
                rows.append(row)
    except csv.Error as error:
        problems.append(RowProblem(reader.reader.line_num, "", "row_invalid", f"No CSV: {error}."))
    return rows, problems


def _check_header(names: Iterable[str]) -> Iterator[RowProblem]:
    given = [name.strip() for name in names]
    if len(given) == 1 and (mark := SEPARATOR.search(given[0])):
        message = f"Columns are separated by commas, not by {mark[0]!r}: save the file so."
        yield RowProblem(1, "", "separator_unknown", message)
        return
    if "username" not in given:
        message = f"The first line names the columns: {', '.join(COLUMNS)}."
        yield RowProblem(1, "username", "column_missing", message)
    for name in given:
        if name not in COLUMNS:
            message = f"There is no such column; the columns are {', '.join(COLUMNS)}."
            yield RowProblem(1, name[:100], "column_unknown", message)


def _row(
    line: int, fields: Mapping[str | None, Any], problems: list[RowProblem]
) -> ImportedUser | None:
    if None in fields or None in fields.values():
        message = "The row has more or fewer fields than the first line."
        problems.append(RowProblem(line, "", "row_invalid", message))
        return None
    values = {str(name).strip(): value.strip() for name, value in fields.items()}
    roles: dict[str, str] = {}
    for entry in _list(values.get("virtual_clusters", "")):
        vc, _, role = entry.partition(":")
        roles[vc] = role or Role.MEMBER.value
    names = _list(values.get("groups", ""))
    return ImportedUser(line, values["username"], values.get("email", ""), names, roles)


def _list(value: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in value.split(";") if part.strip()))


def _known(rows: Iterable[ImportedUser]) -> _Known:
    rows = list(rows)
    users = User.objects.filter(username__in={row.username for row in rows})
    named = Group.objects.filter(name__in={name for row in rows for name in row.groups})
    vcs = VirtualCluster.objects.filter(name__in={name for row in rows for name in row.roles})
    known = _Known(
        {user.username: user for user in users},
        {group.name: group for group in named},
        {vc.name: vc for vc in vcs},
    )
    seen = Counter(row.username for row in rows)
    for row in rows:
        row.is_new = seen[row.username] == 1  # else `_check` reports it
    return known


def _check(row: ImportedUser, known: _Known) -> Iterator[RowProblem]:
    try:
        names.check(row.username)
        if not is_plain(row.username):
            raise ValidationError("A user name has no control characters.")
    except ValidationError as error:
        yield RowProblem(row.line, "username", "name_invalid", error.messages[0])
    if not row.is_new:
        message = f"{row.username[:150]} is in several rows."
        yield RowProblem(row.line, "username", "name_taken", message)
    if row.email and not external.valid_email(row.email):
        message = f"{row.email[:100]} is no e-mail address."
        yield RowProblem(row.line, "email", "email_invalid", message)
    for name in row.groups:
        if name not in known.groups:
            message = f"There is no group named {name[:100]}."
            yield RowProblem(row.line, "groups", "not_found", message)
    for name, role in row.roles.items():
        if name not in known.vcs:
            message = f"There is no virtual cluster named {name[:100]}."
            yield RowProblem(row.line, "virtual_clusters", "not_found", message)
        if role not in Role.values:
            message = f"A role is one of {', '.join(Role.values)}, not {role[:100]}."
            yield RowProblem(row.line, "virtual_clusters", "role_unknown", message)


def _rows(problems: list[RowProblem]) -> str:
    lines = sorted({problem.line for problem in problems})
    return f"Line {lines[0]}" if len(lines) == 1 else f"{len(lines)} lines"


@transaction.atomic
def _write(actor: User, rows: list[ImportedUser], known: _Known) -> None:
    groups.lock()
    users = known.users | _created(actor, [row for row in rows if row.is_new])
    GroupMember.objects.bulk_create(
        [
            GroupMember(group=known.groups[name], user=users[row.username])
            for row in rows
            for name in row.groups
        ],
        update_conflicts=True,
        unique_fields=["group", "user"],
        update_fields=["external"],
        batch_size=1000,
    )
    _audit_groups(rows, known)
    _grant(rows, users, known)
    new = sum(row.is_new for row in rows)
    audit.record("user.import", "user", users=len(rows), new_users=new)
    memberships.refresh(users=[users[row.username].pk for row in rows])
    for row in rows:
        if row.is_new:
            row.reset_url = services.reset_url(users[row.username])


def _audit_groups(rows: list[ImportedUser], known: _Known) -> None:
    joined: dict[str, list[str]] = {}
    for row in rows:
        for name in row.groups:
            joined.setdefault(name, []).append(row.username)
    AuditEntry.objects.bulk_create(
        audit.entry(
            "group.member.add",
            "group",
            known.groups[name].pk,
            name,
            usernames=usernames[:200],
            users=len(usernames),
            imported=True,
        )
        for name, usernames in joined.items()
    )


def _created(actor: User, rows: list[ImportedUser]) -> dict[str, User]:
    new = [
        User(username=row.username, email=row.email, password=make_password(None)) for row in rows
    ]
    try:
        with transaction.atomic():
            User.objects.bulk_create(new, batch_size=1000)
    except IntegrityError:
        message = "Another admin created one of these users just now; import the file again."
        raise Conflict(message, code="import_conflict") from None
    Event.objects.bulk_create(
        [
            event(
                "user",
                user.pk,
                "user.created",
                f"User {user.username} was created.",
                actor=actor.get_username(),
                username=user.username,
                is_admin=False,
                imported=True,
            )
            for user in new
        ],
        batch_size=1000,
    )
    AuditEntry.objects.bulk_create(
        (
            audit.entry(
                "user.create",
                "user",
                user.pk,
                user.username,
                after={"username": user.username, "email": user.email, "is_admin": False},
                imported=True,
                reset_link=True,
            )
            for user in new
        ),
        batch_size=1000,
    )
    return {user.username: user for user in new}


def _grant(rows: list[ImportedUser], users: Mapping[str, User], known: _Known) -> None:
    """Give the roles; a user who has a higher one in a virtual cluster keeps it."""
    wanted: dict[tuple[UUID, int], str] = {
        (known.vcs[name].pk, users[row.username].pk): role
        for row in rows
        for name, role in row.roles.items()
    }
    ranks = memberships.RANKS
    present = RoleGrant.objects.filter(
        vc__in={vc for vc, _ in wanted}, user__in={user for _, user in wanted}
    )
    for vc, user, role in present.values_list("vc", "user", "role"):
        if (vc, user) in wanted and ranks[role] >= ranks[wanted[vc, user]]:
            del wanted[vc, user]
    RoleGrant.objects.bulk_create(
        [RoleGrant(vc_id=vc, user_id=user, role=role) for (vc, user), role in wanted.items()],
        update_conflicts=True,
        unique_fields=["vc", "user"],
        update_fields=["role"],
        batch_size=1000,
    )
    vcs = {vc.pk: vc for vc in known.vcs.values()}
    names = {user.pk: user.username for user in users.values()}
    AuditEntry.objects.bulk_create(
        (
            audit.entry(
                "vc.member.set",
                "user",
                user,
                names[user],
                after={"role": role},
                vc=vcs[vc],
                imported=True,
            )
            for (vc, user), role in wanted.items()
        ),
        batch_size=1000,
    )
