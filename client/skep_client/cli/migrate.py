"""`skep migrate`: users, groups, virtual clusters, storages and job files of an OpenPAI cluster.

`skep migrate openpai` reads them by OpenPAI's REST API and writes a plan, a JSON file that a person
can read and change. `skep migrate apply` does what of the plan is not done yet, so that it can be
repeated. Passwords and tokens are in neither.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from skep_client.cli.common import Json, client, print_json, print_table, read_file, say
from skep_client.cli.openpai import OpenPai, hived_in

if TYPE_CHECKING:
    from skep_client.client import Skep

VERSION = 1  # of the plan
USERS_AT_A_TIME = 1_000  # rows of one import, which takes at most 5,000 and 1,000,000 characters
JOBS_AT_A_TIME = 500
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*~[A-Za-z0-9._-]+")
ROLES = ("member", "admin")  # that may submit


@dataclass(slots=True)
class PlannedGroup:
    name: str
    description: str = ""
    external_name: str = ""
    virtual_clusters: list[str] = field(default_factory=list)
    storages: list[str] = field(default_factory=list)


@dataclass(slots=True)
class PlannedUser:
    """`virtual_clusters`: those that no group gives."""

    username: str
    email: str = ""
    admin: bool = False
    groups: list[str] = field(default_factory=list)
    virtual_clusters: list[str] = field(default_factory=list)


@dataclass(slots=True)
class PlannedStorage:
    name: str
    type: str
    data: dict[str, str]
    mount_options: list[str] = field(default_factory=list)
    read_only: bool = False
    default: bool = False


@dataclass(slots=True)
class Plan:
    """What is to be there after `skep migrate apply`. `notes`: what cannot be carried over."""

    virtual_clusters: list[str] = field(default_factory=list)
    groups: list[PlannedGroup] = field(default_factory=list)
    users: list[PlannedUser] = field(default_factory=list)
    storages: list[PlannedStorage] = field(default_factory=list)
    hived: str = ""  # the text of hivedscheduler.yaml
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    reset_urls: dict[str, str] = field(default_factory=dict)


def add_to(app: typer.Typer) -> None:
    migrate = typer.Typer(no_args_is_help=True, help="Move here from another platform (admin).")
    migrate.command("openpai")(openpai)
    migrate.command("apply")(apply)
    app.add_typer(migrate, name="migrate")


def openpai(
    server: Annotated[str, typer.Option(help="Address of OpenPAI's portal.")],
    token: Annotated[
        str, typer.Option(envvar="OPENPAI_TOKEN", help="Token of an administrator there.")
    ],
    plan: Annotated[Path, typer.Option(metavar="FILE", help="Where the plan is written.")] = Path(
        "openpai-plan.json"
    ),
    jobs: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Also write the job files, as USER~JOB.yaml."),
    ] = None,
    most_jobs: Annotated[int, typer.Option(min=1, help="The newest ones, at most.")] = 1_000,
    hived: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="hivedscheduler.yaml, or services-configuration.yaml, which has it inside: "
            "OpenPAI's API gives neither.",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Read an OpenPAI cluster, and write a plan of what to create here. Nothing is changed."""
    from skep_client.errors import ServerUnreachable

    configuration = hived_in(read_file(hived)) if hived else ""
    with OpenPai(server, token) as source:
        try:
            made = plan_of(source, configuration)
            files = write_job_files(source, jobs, most_jobs) if jobs else 0
        except (KeyError, TypeError, AttributeError) as error:
            message = f"{server} does not answer as OpenPAI does: {error!r} in what it sent."
            raise ServerUnreachable(message) from None
    content = {"version": VERSION, "from": "openpai", **asdict(made)}
    try:
        plan.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {plan}: {error}") from None
    if as_json:
        print_json({**content, "job_files": files})
        return
    for note in made.notes:
        say(f"Note: {note}", err=True)
    say(
        f"{len(made.users):,} users, {len(made.groups):,} groups, {len(made.virtual_clusters):,} "
        f"virtual clusters, {len(made.storages):,} storages are in {plan}"
    )
    if jobs:
        say(f"{files:,} job files are in {jobs}; to check them: skep check --offline {jobs}/*.yaml")
    say(f"To see what would be done: skep migrate apply --dry-run {plan}")


def apply(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="What skep migrate openpai wrote.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Create what of a plan is missing here (admin). What is there keeps what it has. New users get
    a link to set their password."""
    from skep_client import exits

    wanted = read_plan(plan)
    with client() as skep:
        outcome = carry_out(skep, wanted, dry_run=dry_run)
    if as_json:
        print_json({**asdict(outcome), "dry_run": dry_run})
    else:
        _print(outcome, dry_run=dry_run)
    if outcome.failed:
        raise typer.Exit(exits.FAILED)


def _print(outcome: Outcome, *, dry_run: bool) -> None:
    for sentence in outcome.done:
        say(sentence)
    for sentence in outcome.failed:
        say(f"Failed: {sentence}", err=True)
    if not outcome.done and not outcome.failed:
        say("Nothing is left to do")
    elif dry_run:
        say("Nothing was changed: this is what would be done")
    if outcome.reset_urls:
        print_table(("USER", "SETS A PASSWORD AT"), outcome.reset_urls.items())


def plan_of(source: OpenPai, hived: str = "") -> Plan:
    """Return what an OpenPAI cluster has; `hived`: the configuration of its scheduler. Raises
    SkepError."""
    made = Plan(virtual_clusters=sorted(source.get("virtual-clusters")), hived=hived)
    for one in source.get("groups"):
        acls = (one.get("extension") or {}).get("acls") or {}
        made.groups.append(
            PlannedGroup(
                one["groupname"],
                one.get("description") or "",
                one.get("externalName") or "",
                sorted(acls.get("virtualClusters") or []),
                sorted(acls.get("storageConfigs") or []),
            )
        )
        if acls.get("admin"):
            made.notes.append(
                f"Group {one['groupname']} makes its members admins. Here they are admins one by "
                "one; who joins the group later is not."
            )
    of_groups = {group.name: set(group.virtual_clusters) for group in made.groups}
    for one in source.get("users"):
        groups = sorted(one.get("grouplist") or [])
        given = set().union(*(of_groups.get(name, ()) for name in groups))
        own = sorted(set(one.get("virtualCluster") or []) - given)
        made.users.append(
            PlannedUser(one["username"], one.get("email") or "", bool(one["admin"]), groups, own)
        )
    for one in source.get("storages")["storages"]:
        _add_storage(made, one, source.get(f"storages/{quote(one['name'], safe='')}"))
    if not hived:
        made.notes.append(
            "The GPUs of the virtual clusters are in hivedscheduler.yaml: give it by --hived, or "
            "later to skep cells import --assign."
        )
    return made


def _add_storage(made: Plan, listed: dict[str, Any], shown: dict[str, Any]) -> None:
    name, data = listed["name"], shown.get("data") or {}
    if shown.get("type") != "nfs" or not data.get("server"):
        made.notes.append(
            f"Storage {name} is of type {shown.get('type') or 'unknown'}: add it by hand, see "
            "skep storages add --help."
        )
        return
    options = shown.get("mountOptions") or []
    made.storages.append(
        PlannedStorage(
            name,
            "nfs",
            {"server": str(data["server"]), "path": str(data.get("path") or "/")},
            options if isinstance(options, list) else [str(options)],
            bool(shown.get("readOnly")),
            bool(listed.get("default")),
        )
    )


def write_job_files(source: OpenPai, folder: Path, most: int) -> int:
    """Write the files of the newest jobs as `user~job.yaml`; returns how many. Raises SkepError."""
    written = offset = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while offset < most:
            limit = min(JOBS_AT_A_TIME, most - offset)
            found = source.get("jobs", offset=offset, limit=limit, order="submissionTime,DESC")
            for one in found:
                name = f"{one['username']}~{one['name']}"
                if not FILE_NAME.fullmatch(name):  # it names a file here
                    say(f"Note: job {name} cannot name a file, and is left out.", err=True)
                    continue
                text = source.text(f"jobs/{name}/config")
                (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
                written += 1
            offset += len(found)
            if len(found) < limit:
                break
    except OSError as error:
        raise typer.BadParameter(f"cannot write job files: {error}") from None
    return written


def read_plan(path: Path) -> Plan:
    """Return a plan. Raises typer.BadParameter."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("version") != VERSION:
            raise typer.BadParameter(f"{path} is no plan of version {VERSION}.")
        return Plan(
            list(content["virtual_clusters"]),
            [PlannedGroup(**one) for one in content["groups"]],
            [PlannedUser(**one) for one in content["users"]],
            [PlannedStorage(**one) for one in content["storages"]],
            str(content.get("hived") or ""),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise typer.BadParameter(f"cannot read the plan {path}: {error}") from None


def carry_out(skep: Skep, plan: Plan, *, dry_run: bool) -> Outcome:
    """Create what of a plan is missing. What is refused is in the outcome, and the rest is done.
    Raises SkepError where the server cannot be asked what is there."""
    work = _Work(skep, dry_run=dry_run)
    work.virtual_clusters(plan.virtual_clusters)
    work.cells(plan.hived)
    work.groups(plan.groups)
    work.storages(plan)
    work.users(plan.users)
    return work.outcome


class _Work:
    """The steps of `carry_out`, in their order: a later one needs the names of the earlier ones."""

    def __init__(self, skep: Skep, *, dry_run: bool) -> None:
        self.skep, self.dry_run, self.outcome = skep, dry_run, Outcome()
        self.old_vcs: set[str] = set()
        self.old_groups: set[str] = set()
        self.known_vcs = {vc.name for vc in skep.virtual_clusters()}
        self.known_groups = {group.name for group in skep.groups()}

    def do(self, sentence: str, action: Callable[[], object]) -> bool:
        from skep_client.errors import SkepError

        if not self.dry_run:
            try:
                action()
            except SkepError as error:
                self.outcome.failed.append(f"{sentence}: {error.message} ({error.code})")
                return False
        self.outcome.done.append(sentence)
        return True

    def virtual_clusters(self, names: Iterable[str]) -> None:
        self.old_vcs = set(self.known_vcs)
        for name in names:
            if name in self.known_vcs:
                continue
            create = partial(self.skep.create_virtual_cluster, name, "", {})
            if self.do(f"create virtual cluster {name}", create):
                self.known_vcs.add(name)

    def cells(self, hived: str) -> None:
        """Import the configuration of HiveD, unless one was imported: it is changed by people."""
        if not hived or self.skep.cells().source == "file":
            return
        found = self.skep.check_hived(hived, assign=True)
        sentence = "lay out the cells of HiveD's configuration and give them to virtual clusters"
        if not found.fits:
            wrong = "; ".join(f"{error.path}: {error.message}" for error in found.errors[:20])
            self.outcome.failed.append(f"{sentence}: {wrong}")
            return
        self.do(sentence, partial(self.skep.import_hived, hived, assign=True))

    def groups(self, groups: Iterable[PlannedGroup]) -> None:
        self.old_groups = set(self.known_groups)
        held = {
            (vc, one.group)
            for vc in sorted({vc for group in groups for vc in group.virtual_clusters})
            if vc in self.old_vcs
            for one in self.skep.group_roles(vc)
            if one.role in ROLES
        }
        for one in groups:
            fields = one.name, one.description, one.external_name
            create = partial(self.skep.create_group, *fields)
            if one.name not in self.known_groups and self.do(f"create group {one.name}", create):
                self.known_groups.add(one.name)
            if one.name not in self.known_groups:
                continue
            for vc in one.virtual_clusters:
                if vc in self.known_vcs and (vc, one.name) not in held:
                    give = partial(self.skep.set_group_role, vc, one.name, "member")
                    self.do(f"give group {one.name} the role member in {vc}", give)

    def storages(self, plan: Plan) -> None:
        known = {one.name: one for one in self.skep.storages()}
        names = set(known)
        for one in plan.storages:
            create = partial(self.skep.create_storage, **asdict(one))
            if one.name not in known and self.do(f"add storage {one.name}", create):
                names.add(one.name)
        held = {(name, grant.group) for name in known for grant in known[name].group_grants}
        for group in plan.groups:
            for name in group.storages if group.name in self.known_groups else ():
                if name in names and (name, group.name) not in held:
                    grant = partial(self.skep.grant_storage_to_group, name, group.name)
                    self.do(f"let group {group.name} mount storage {name}", grant)

    def users(self, users: list[PlannedUser]) -> None:
        known = {user.username: user for user in self.skep.users()}
        rows = list(self._missing(users, known))
        for at in range(0, len(rows), USERS_AT_A_TIME):
            self._import(rows[at : at + USERS_AT_A_TIME], known)
        imported = {row.username for row in rows} if self.dry_run else set(self.outcome.reset_urls)
        for user in users:
            there = known.get(user.username)
            if user.admin and (not there.is_admin if there else user.username in imported):
                promote = partial(self.skep.update_user, user.username, is_admin=True)
                self.do(f"make {user.username} an admin", promote)

    def _missing(self, users: list[PlannedUser], known: Iterable[str]) -> Iterator[PlannedUser]:
        """Yield the users who are new, or lack a group or a role, with what they lack."""
        groups = {name for user in users for name in user.groups}
        vcs = {name for user in users for name in user.virtual_clusters}
        in_groups = {
            (one.username, name)
            for name in sorted(groups & self.old_groups)
            for one in self.skep.group_members(name)
        }
        in_vcs = {
            (one.username, name)
            for name in sorted(vcs & self.old_vcs)
            for one in self.skep.members(name)
            if one.role in ROLES
        }
        for user in users:
            row = PlannedUser(
                user.username,
                user.email,
                groups=[
                    name
                    for name in user.groups
                    if name in self.known_groups and (user.username, name) not in in_groups
                ],
                virtual_clusters=[
                    name
                    for name in user.virtual_clusters
                    if name in self.known_vcs and (user.username, name) not in in_vcs
                ],
            )
            if user.username not in known or row.groups or row.virtual_clusters:
                yield row

    def _import(self, rows: list[PlannedUser], known: Iterable[str]) -> None:
        from skep_client import calls
        from skep_client.errors import SkepError

        new = [row.username for row in rows if row.username not in known]
        sentence = f"import {len(rows):,} users, {len(new):,} of them new"
        if self.dry_run:
            self.outcome.done.append(f"{sentence}: {', '.join(row.username for row in rows)}")
            return
        try:
            found = self.skep.run(calls.import_users(_csv(rows))).users
        except SkepError as error:
            problems = error.details.get("problems", ())
            bad = {rows[one["line"] - 2].username: one["message"] for one in problems}
            good = [row for row in rows if row.username not in bad]
            if not bad or len(good) == len(rows):
                self.outcome.failed.append(f"{sentence}: {error.message} ({error.code})")
                return
            for name, message in bad.items():
                self.outcome.failed.append(f"import {name}: {message}")
            if good:  # each time fewer rows
                self._import(good, known)
            return
        self.outcome.done.append(sentence)
        self.outcome.reset_urls |= {
            user.username: user.reset_url for user in found if user.is_new and user.reset_url
        }


def _csv(rows: Iterable[PlannedUser]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("username", "email", "groups", "virtual_clusters"))
    for row in rows:
        fields = row.username, row.email, ";".join(row.groups), ";".join(row.virtual_clusters)
        # One line a row: problems are given by their line.
        writer.writerow(" ".join(value.split()) for value in fields)
    return out.getvalue()
