"""`skep storages`: what jobs can mount by name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client.cli.common import Json, client, print_json, print_table, say

if TYPE_CHECKING:
    from skep_client.models import Storage

Name = Annotated[str, typer.Argument(metavar="STORAGE", help="Name of a storage.")]
VcName = Annotated[
    str, typer.Argument(metavar="[VC]", help="Name of a virtual cluster.", show_default=False)
]
GroupName = Annotated[str, typer.Option("--group", help="A group of users, in place of VC.")]


def add_to(app: typer.Typer) -> None:
    storages = typer.Typer(
        invoke_without_command=True, help="List the storages that your jobs can mount."
    )
    storages.callback()(list_storages)
    for command in (show, add, keys, remove, grant, revoke):
        storages.command()(command)
    # `skep storages` lists as well; scripts may name what they do.
    storages.command("list")(list_storages)
    app.add_typer(storages, name="storages")


def list_storages(context: typer.Context, as_json: Json = False) -> None:
    """List the storages that your jobs can mount, by name."""
    if context.invoked_subcommand is not None:
        return
    with client() as skep:
        found = list(skep.storages())
    if as_json:
        print_json(found)
        return
    print_table(
        ("NAME", "TYPE", "ACCESS", "DEFAULT", "VIRTUAL CLUSTERS", "GROUPS", "DESCRIPTION"),
        [
            (one.name, one.type, _access(one), "yes" if one.default else "", _vcs(one),
             _groups(one), one.description)
            for one in found
        ],
    )  # fmt: skip


def show(storage: Name, as_json: Json = False) -> None:
    """Show a storage; those who may change it also see where it lies."""
    with client() as skep:
        found = skep.storage(storage)
    if as_json:
        print_json(found)
        return
    rows = [
        ("Name", found.name),
        ("Description", found.description),
        ("Type", found.type),
        *((key.capitalize().replace("_", " "), value) for key, value in found.data.items()),
        ("Keys", "stored" if found.has_keys else ""),
        ("Mount options", ",".join(found.mount_options)),
        ("Access", _access(found)),
        ("Default", "yes" if found.default else "no"),
        ("Managed by", found.managed_by),
        ("Virtual clusters", _vcs(found)),
        ("Groups", _groups(found)),
    ]
    print_table(("", ""), [row for row in rows if row[1]])


def add(
    storage: Name,
    nfs: Annotated[str, typer.Option(help="Export to mount, as SERVER:/PATH.")] = "",
    host_path: Annotated[str, typer.Option(help="Folder that every node has.")] = "",
    s3: Annotated[
        str, typer.Option(help="Bucket, of which each task gets a copy: s3://BUCKET/FOLDER.")
    ] = "",
    endpoint: Annotated[
        str, typer.Option(help="Address of its store, such as https://s3.example.org.")
    ] = "",
    region: Annotated[str, typer.Option(help="Region of the bucket, where it has one.")] = "",
    virtual_hosts: Annotated[
        bool,
        typer.Option("--virtual-hosts", help="The store has the bucket in the name of its host."),
    ] = False,
    access_key: Annotated[
        str, typer.Option(help="Access key of the bucket. Its secret key is asked for.")
    ] = "",
    secret_key_stdin: Annotated[
        bool, typer.Option("--secret-key-stdin", help="Read the secret key from stdin.")
    ] = False,
    description: Annotated[str, typer.Option(help="What it holds.")] = "",
    options: Annotated[
        list[str] | None,
        typer.Option("--option", help="Mount option of NFS, such as vers=4.2. May be repeated."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="No job may write.")] = False,
    per_user: Annotated[
        bool, typer.Option("--per-user", help="Give each user a folder of its own.")
    ] = False,
    home: Annotated[
        bool,
        typer.Option(
            "--home", help="Mount the folder of its owner at /home/USER in each job; per user."
        ),
    ] = False,
    default: Annotated[
        bool, typer.Option("--default", help="Mount it where a job file says `storages: []`.")
    ] = False,
    managed_by: Annotated[
        str,
        typer.Option(
            metavar="VC", help="A bucket of this virtual cluster, which its VC admins may change."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Add a storage, which no virtual cluster may use before it is granted (admin); with
    --managed-by a bucket for one virtual cluster (its VC admins)."""
    if sum(map(bool, (nfs, host_path, s3))) != 1:
        raise typer.BadParameter("Give one of --nfs, --host-path and --s3.")
    if not s3 and (endpoint or region or virtual_hosts or access_key or secret_key_stdin):
        raise typer.BadParameter("An endpoint, a region and keys are for --s3.")
    server, colon, path = nfs.partition(":")
    if nfs and not colon:
        raise typer.BadParameter("--nfs is SERVER:/PATH.")
    if nfs:
        kind, data = "nfs", {"server": server, "path": path}
    elif host_path:
        kind, data = "host_path", {"path": host_path}
    else:
        kind, data = "s3", _bucket(s3, endpoint, region, virtual_hosts)
    body: dict[str, Any] = {
        "description": description,
        "mount_options": options or [],
        "read_only": read_only,
        "per_user": per_user or home,
        "home": home,
        "default": default,
    }
    if managed_by:
        body["managed_by"] = managed_by
    if access_key:
        body |= {"access_key": access_key, "secret_key": _secret_key(secret_key_stdin)}
    with client() as skep:
        made = skep.create_storage(storage, kind, data, **body)
    if as_json:
        print_json(made)
        return
    if managed_by:
        say(f"Added. Jobs of {managed_by} mount it by the name {made.name}.")
    else:
        say(f"Added. To let jobs mount it: skep storages grant {made.name} VC")


def keys(
    storage: Name,
    access_key: Annotated[
        str, typer.Argument(metavar="[ACCESS_KEY]", help="Without one, none.", show_default=False)
    ] = "",
    secret_key_stdin: Annotated[
        bool, typer.Option("--secret-key-stdin", help="Read the secret key from stdin.")
    ] = False,
) -> None:
    """Replace the keys of a bucket, or forget them (who may change it). Tasks that start from
    then on use the new ones."""
    secret = _secret_key(secret_key_stdin) if access_key else ""
    with client() as skep:
        skep.update_storage(storage, access_key=access_key, secret_key=secret)
    say("Stored." if access_key else "Forgotten: requests are not signed.")


def _secret_key(stdin: bool) -> str:
    if stdin:
        return sys.stdin.read().rstrip("\r\n")
    return str(typer.prompt("Secret key", hide_input=True, err=True))


def _bucket(address: str, endpoint: str, region: str, virtual_hosts: bool) -> dict[str, str]:
    bucket, _, prefix = address.removeprefix("s3://").strip("/").partition("/")
    if not endpoint:
        raise typer.BadParameter("--s3 needs the --endpoint of its store.")
    data = {"endpoint": endpoint.rstrip("/"), "bucket": bucket, "region": region, "prefix": prefix}
    data["path_style"] = "false" if virtual_hosts else "true"
    return {name: value for name, value in data.items() if value}


def remove(storage: Name) -> None:
    """Remove a storage from the list, and nothing that lies in it (who may change it)."""
    with client() as skep:
        skep.delete_storage(storage)
    say("Removed.")


def grant(
    storage: Name,
    vc: VcName = "",
    group: GroupName = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Its jobs may only read.")] = False,
) -> None:
    """Let the jobs of a virtual cluster, or of the users of a group, mount a storage (admin)."""
    _one_of(vc, group)
    with client() as skep:
        if group:
            skep.grant_storage_to_group(storage, group, read_only=read_only)
        else:
            skep.grant_storage(storage, vc, read_only=read_only)
    whose = f"the users of {group}" if group else vc
    say(f"Jobs of {whose} may {'read' if read_only else 'use'} {storage}.")


def revoke(storage: Name, vc: VcName = "", group: GroupName = "") -> None:
    """Withdraw a grant; containers that run keep the storage (admin)."""
    _one_of(vc, group)
    with client() as skep:
        if group:
            skep.revoke_storage_from_group(storage, group)
        else:
            skep.revoke_storage(storage, vc)
    whose = f"the users of {group}" if group else vc
    say(f"Jobs of {whose} that start from now on cannot mount {storage} by this grant.")


def _one_of(vc: str, group: str) -> None:
    if bool(vc) == bool(group):
        raise typer.BadParameter("Give one of VC and --group.")


def _access(storage: Storage) -> str:
    words = ["read only" if storage.read_only else "read and write"]
    if storage.per_user:
        words.append("a home for each user" if storage.home else "a folder for each user")
    return ", ".join(words)


def _vcs(storage: Storage) -> str:
    return ", ".join(
        f"{grant.virtual_cluster} (read only)" if grant.read_only else grant.virtual_cluster
        for grant in storage.grants
    )


def _groups(storage: Storage) -> str:
    return ", ".join(
        f"{grant.group} (read only)" if grant.read_only else grant.group
        for grant in storage.group_grants
    )
