"""`skep users`, `skep groups`, `skep members`: who uses the cluster, and in which role."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from skep_client.cli.common import (
    Json,
    client,
    given_fields,
    print_json,
    print_table,
    say,
    say_deleted,
)

if TYPE_CHECKING:
    from skep_client.models import User

Role = Literal["viewer", "member", "admin"]
UserName = Annotated[str, typer.Argument(metavar="USER", help="User name.")]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of a group.")]
UserNames = Annotated[list[str], typer.Argument(metavar="USER…", help="User names.")]
Email = Annotated[str | None, typer.Option(help="E-mail address.")]
Admin = Annotated[bool | None, typer.Option("--admin/--no-admin", help="An admin, or not.")]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the standard input.")
]
External = Annotated[
    str | None, typer.Option(help="Follow this group of the identity provider at each login.")
]


def add_to(app: typer.Typer) -> None:
    users = typer.Typer(invoke_without_command=True, help="List and change users (admin).")
    users.callback()(list_users)
    users.command("list")(list_users)
    users.command("show")(show_user)
    users.command("create")(create_user)
    users.command("update")(update_user)
    users.command("delete")(delete_user)
    users.command("reset-link")(reset_link)
    users.command("import")(import_users)
    app.add_typer(users, name="users")
    groups = typer.Typer(
        invoke_without_command=True, help="List and change groups of users (admin)."
    )
    groups.callback()(list_groups)
    groups.command("list")(list_groups)
    for command in (show, create, update, delete, add, remove):
        groups.command()(command)
    app.add_typer(groups, name="groups")
    app.command()(members)


def list_users(context: typer.Context, as_json: Json = False) -> None:
    """List the users (admin)."""
    if context.invoked_subcommand is not None:
        return
    with client() as skep:
        found = list(skep.users())
    if as_json:
        print_json(found)
        return
    print_table(
        ("USER", "E-MAIL", "ADMIN", "ACTIVE"),
        [
            (user.username, user.email, "yes" if user.is_admin else "", _yes(user.is_active))
            for user in found
        ],
    )


def show_user(user: UserName, as_json: Json = False) -> None:
    """Show a user (admin)."""
    with client() as skep:
        _print_user(skep.user(user), as_json=as_json)


def create_user(
    user: UserName,
    email: Email = None,
    admin: Admin = None,
    password_stdin: PasswordStdin = False,
    as_json: Json = False,
) -> None:
    """Create a user (admin). Without --password-stdin it prints a link at which the user sets a
    password, once."""
    import secrets

    password = _password() if password_stdin else secrets.token_urlsafe(24)
    with client() as skep:
        made = skep.create_user(user, password, email=email or "", is_admin=bool(admin))
        link = None if password_stdin else skep.create_password_reset_link(user)
    if as_json:
        print_json(made.model_dump(mode="json") | {"reset_url": link.url if link else None})
        return
    say(f"Created {made.username}")
    if link:
        say(f"Sets a password at {link.url}")


def update_user(
    user: UserName,
    email: Email = None,
    admin: Admin = None,
    active: Annotated[
        bool | None,
        typer.Option(
            "--active/--inactive", help="May log in, or may not: then the user's jobs stop."
        ),
    ] = None,
    password_stdin: PasswordStdin = False,
    as_json: Json = False,
) -> None:
    """Change a user (admin). A new password ends all sessions and tokens of the user."""
    password = _password() if password_stdin else None
    fields = given_fields(email=email, is_admin=admin, is_active=active, password=password)
    with client() as skep:
        _print_user(skep.update_user(user, **fields), as_json=as_json)


def delete_user(user: UserName, as_json: Json = False) -> None:
    """Delete a user for good (admin). The user's jobs stop."""
    with client() as skep:
        skep.delete_user(user)
    say_deleted(user, as_json=as_json)


def reset_link(user: UserName, as_json: Json = False) -> None:
    """Print a link at which a user sets a new password, once (admin)."""
    with client() as skep:
        link = skep.create_password_reset_link(user)
    if as_json:
        print_json(link)
    else:
        say(link.url)


def import_users(
    path: Annotated[
        typer.FileText,
        typer.Argument(
            metavar="FILE",
            help="CSV with the columns username, email, groups (a;b) and virtual_clusters "
            "(vc:role;vc); - for stdin.",
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check the file.")] = False,
    as_json: Json = False,
) -> None:
    """Create users, and add users to groups and virtual clusters: all of the file or nothing. New
    users get a link to set their password."""
    from skep_client import calls
    from skep_client.errors import SkepError

    with client() as skep:
        try:
            found = skep.run(calls.import_users(path.read(), dry_run=dry_run)).users
        except SkepError as error:
            for problem in error.details.get("problems", ()):
                where = f"{Path(path.name).name}:{problem['line']}"
                say(f"{where}: {problem['column']}: {problem['message']}", err=True)
            raise
    if as_json:
        print_json(found)
        return
    new = [user for user in found if user.is_new]
    verb = "would be created" if dry_run else "created"
    say(f"{len(new)} {verb}, {len(found) - len(new)} known")
    if new and not dry_run:
        print_table(("USER", "SETS A PASSWORD AT"), [(u.username, u.reset_url) for u in new])


def list_groups(context: typer.Context, as_json: Json = False) -> None:
    """List the groups (admin)."""
    if context.invoked_subcommand is not None:
        return
    with client() as skep:
        found = list(skep.groups())
    if as_json:
        print_json(found)
        return
    print_table(
        ("GROUP", "USERS", "FOLLOWS", "DESCRIPTION"),
        [(one.name, one.members, one.external_name, one.description) for one in found],
    )


def show(group: GroupName, as_json: Json = False) -> None:
    """List the users of a group."""
    from skep_client import calls

    with client() as skep:
        found = list(skep.all(lambda cursor: calls.group_members(group, cursor=cursor)))
    if as_json:
        print_json(found)
        return
    rows = [(m.username, "identity provider" if m.external else "an admin") for m in found]
    print_table(("USER", "ADDED BY"), rows)


def create(
    group: GroupName,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    external_name: External = None,
    as_json: Json = False,
) -> None:
    """Create an empty group."""
    with client() as skep:
        made = skep.create_group(group, description, external_name or "")
    if as_json:
        print_json(made)
        return
    say(f"Created. To give its users a role: skep members VC --group {made.name}")


def update(
    group: GroupName,
    name: Annotated[str | None, typer.Option(help="New name.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    external_name: External = None,
    as_json: Json = False,
) -> None:
    """Change a group."""
    fields = given_fields(name=name, description=description, external_name=external_name)
    with client() as skep:
        changed = skep.update_group(group, **fields)
    if as_json:
        print_json(changed)
    else:
        say(f"Changed {changed.name}")


def delete(group: GroupName, as_json: Json = False) -> None:
    """Delete a group; jobs of users who lose their role by that stop."""
    with client() as skep:
        skep.delete_group(group)
    say_deleted(group, as_json=as_json)


def add(group: GroupName, users: UserNames, as_json: Json = False) -> None:
    """Add users to a group."""
    with client() as skep:
        added = []
        for name in users:
            added.append(skep.add_group_member(group, name))
            if not as_json:
                say(f"{name} is in {group}")
    if as_json:
        print_json(added)


def remove(group: GroupName, users: UserNames, as_json: Json = False) -> None:
    """Remove users from a group; their jobs stop where they have no role any more."""
    with client() as skep:
        for name in users:
            skep.remove_group_member(group, name)
            if not as_json:
                say(f"{name} is not in {group} any more")
        if as_json:
            print_json(skep.group(group))


def members(
    vc: Annotated[str, typer.Argument(metavar="VC", help="Virtual cluster.")],
    add: Annotated[list[str], typer.Option(help="Make a user a member.")] = [],  # noqa: B006
    viewer: Annotated[list[str], typer.Option(help="Make a user a viewer.")] = [],  # noqa: B006
    vc_admin: Annotated[
        list[str], typer.Option("--vc-admin", "--manager", help="Make a user a VC admin.")
    ] = [],  # noqa: B006
    remove: Annotated[list[str], typer.Option(help="Remove a user; the user's jobs stop.")] = [],  # noqa: B006
    group: Annotated[list[str], typer.Option(help="Give a group the role of --role.")] = [],  # noqa: B006
    role: Annotated[Role, typer.Option(help="Role of the groups.")] = "member",
    remove_group: Annotated[list[str], typer.Option(help="Take a group's role away.")] = [],  # noqa: B006
    confirm: Annotated[bool, typer.Option(help="Also where no VC admin would be left.")] = False,
    as_json: Json = False,
) -> None:
    """List the members of a virtual cluster and where their roles come from; change them, if you
    manage it."""
    from skep_client import calls

    with client() as skep:
        for given, names in (("viewer", viewer), ("member", add), ("admin", vc_admin)):
            for name in names:
                skep.run(calls.set_member(vc, name, given, confirm=confirm))
        for name in group:
            skep.run(calls.set_group_role(vc, name, role, confirm=confirm))
        for name in remove:
            skep.run(calls.remove_member(vc, name, confirm=confirm))
        for name in remove_group:
            skep.run(calls.remove_group_role(vc, name, confirm=confirm))
        found = list(skep.all(lambda cursor: calls.members(vc, cursor=cursor)))
    if as_json:
        print_json(found)
        return
    rows = [(one.username, one.role, ", ".join(one.groups or ())) for one in found]
    print_table(("USER", "ROLE", "BY GROUPS"), rows)


def _print_user(user: User, *, as_json: bool) -> None:
    if as_json:
        print_json(user)
        return
    rows = [
        ("User", user.username),
        ("E-mail", user.email or "–"),
        ("Admin", _yes(user.is_admin)),
        ("Active", _yes(user.is_active)),
        ("MFA", _yes(user.mfa)),
        ("Created", f"{user.created_at:%Y-%m-%d}"),
        ("Last login", f"{user.last_login_at:%Y-%m-%d}" if user.last_login_at else "never"),
    ]
    for name, value in rows:
        say(f"{name + ':':12}{value}")


def _password() -> str:
    return sys.stdin.readline().rstrip("\r\n")


def _yes(value: bool) -> str:
    return "yes" if value else "no"
