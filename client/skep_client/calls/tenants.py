"""Requests about virtual clusters, storages, registries, the audit log and usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skep_client import models
from skep_client.calls.request import Call, given, named
from skep_client.model import Page

UPLOAD_S = 300.0
LONG_S = 60.0  # the server itself ends such a request after 20 s
YAML = {"Content-Type": "text/yaml"}


def virtual_clusters(**params: Any) -> Call[Page[models.VirtualCluster]]:
    """Iterate over the virtual clusters that you may see, by name."""
    answer = Page[models.VirtualCluster]
    return Call("GET", "virtual-clusters", answer, params=given(params))


def virtual_cluster(name: str) -> Call[models.VirtualCluster]:
    """Return a virtual cluster that you may see."""
    return Call("GET", f"virtual-clusters/{named(name)}", models.VirtualCluster)


def create_virtual_cluster(
    name: str, description: str = "", quotas: Mapping[str, int] | None = None
) -> Call[models.VirtualCluster]:
    """Make a virtual cluster; `quotas`: GPUs that it owns, by model. For admins."""
    body = {"name": name, "description": description, "quotas": dict(quotas or {})}
    return Call("POST", "virtual-clusters", models.VirtualCluster, json=body, repeatable=False)


def update_virtual_cluster(vc: str, /, **fields: Any) -> Call[models.VirtualCluster]:
    """Change a virtual cluster. `fields`: description, job_visibility, default_image; name, for
    admins. For its VC admins and admins."""
    path = f"virtual-clusters/{named(vc)}"
    return Call("PATCH", path, models.VirtualCluster, json=fields, repeatable="name" not in fields)


def delete_virtual_cluster(name: str) -> Call[None]:
    """Delete a virtual cluster that has no jobs. For admins."""
    return Call("DELETE", f"virtual-clusters/{named(name)}", None)


def policies() -> Call[models.Policies]:
    """Return the scheduling policies that a virtual cluster can choose from."""
    return Call("GET", "policies", models.Policies)


def forecast_policy(vc: str, name: str, parameters: Mapping[str, Any]) -> Call[models.Simulation]:
    """Simulate the queue of a virtual cluster under another policy on the server, in the
    background."""
    body = {"name": name, "parameters": dict(parameters)}
    path = f"virtual-clusters/{vc}/policy/forecast"
    return Call("POST", path, models.Simulation, json=body, repeatable=False)


def check_policy(vc: str, name: str, parameters: Mapping[str, Any]) -> Call[models.PolicyCheck]:
    """Return what a policy must know of jobs, and how many jobs of a virtual cluster lack it."""
    body = {"name": name, "parameters": dict(parameters)}
    return Call("POST", f"virtual-clusters/{vc}/policy/check", models.PolicyCheck, json=body)


def choose_policy(vc: str, name: str, parameters: Mapping[str, Any]) -> Call[models.VirtualCluster]:
    """Choose the scheduling policy of a virtual cluster. For its VC admins and admins."""
    body = {"policy": {"name": name, "parameters": dict(parameters)}}
    return Call("PATCH", f"virtual-clusters/{vc}", models.VirtualCluster, json=body)


def limits(vc: str) -> Call[models.Limits]:
    """Return the limits of a virtual cluster. For its VC admins and admins."""
    return Call("GET", f"virtual-clusters/{vc}/limits", models.Limits)


def set_limit(vc: str, name: str, value: int) -> Call[models.Limit]:
    """Set one limit. For admins and, of the limits with such a `set_by`, VC admins."""
    path = f"virtual-clusters/{vc}/limits/{name}"
    return Call("PUT", path, models.Limit, json={"value": value})


def reset_limit(vc: str, name: str) -> Call[models.Limit]:
    """Return one limit to its default."""
    return Call("DELETE", f"virtual-clusters/{vc}/limits/{name}", models.Limit)


def set_quotas(
    name: str, quotas: Mapping[str, int], before: Mapping[str, int] | None = None
) -> Call[models.VirtualCluster]:
    """Set how many GPUs of each model a virtual cluster owns. With `before`, the quotas that you
    read, it is refused (`quotas_stale`) if they are others now. For admins."""
    body = {"quotas": dict(quotas)}
    if before is not None:
        body["before"] = dict(before)
    return Call("PUT", f"virtual-clusters/{named(name)}/quotas", models.VirtualCluster, json=body)


def set_member(
    name: str, username: str, role: str, *, confirm: bool = False
) -> Call[models.Member]:
    """Add a member or change its role; `confirm` also where no VC admin would be left."""
    path = f"virtual-clusters/{named(name)}/members/{named(username)}"
    return Call("PUT", path, models.Member, json={"role": role, "confirm": confirm})


def remove_member(name: str, username: str, *, confirm: bool = False) -> Call[None]:
    """Remove a member. Its jobs in the virtual cluster stop."""
    path = f"virtual-clusters/{named(name)}/members/{named(username)}"
    return Call("DELETE", path, None, params={"confirm": 1} if confirm else {})


def members(name: str, **params: Any) -> Call[Page[models.Member]]:
    """Iterate over the members of a virtual cluster."""
    return Call(
        "GET", f"virtual-clusters/{named(name)}/members", Page[models.Member], params=given(params)
    )


def group_roles(name: str, **params: Any) -> Call[Page[models.GroupRole]]:
    """Iterate over the groups that have a role in a virtual cluster."""
    path = f"virtual-clusters/{named(name)}/groups"
    return Call("GET", path, Page[models.GroupRole], params=given(params))


def set_group_role(
    name: str, group: str, role: str, *, confirm: bool = False
) -> Call[models.GroupRole]:
    """Give all users of a group a role; `confirm` also where no VC admin would be left."""
    path, body = (
        f"virtual-clusters/{named(name)}/groups/{named(group)}",
        {"role": role, "confirm": confirm},
    )
    return Call("PUT", path, models.GroupRole, json=body)


def remove_group_role(name: str, group: str, *, confirm: bool = False) -> Call[None]:
    """Take a group's role away. Jobs of users who then have none stop."""
    path = f"virtual-clusters/{named(name)}/groups/{named(group)}"
    return Call("DELETE", path, None, params={"confirm": 1} if confirm else {})


def announcements(**params: Any) -> Call[Page[models.Announcement]]:
    """Iterate over what administrators have announced and has not expired, newest first."""
    return Call("GET", "announcements", Page[models.Announcement], params=given(params))


def announce(
    message: str, *, severity: str = "info", expires_at: str | None = None
) -> Call[models.Announcement]:
    """Show a message on every page. `severity`: info or warning; `expires_at`: a moment as ISO
    8601 with its zone. For admins."""
    body = {"message": message, "severity": severity, "expires_at": expires_at}
    return Call("POST", "announcements", models.Announcement, json=body, repeatable=False)


def delete_announcement(announcement_id: str) -> Call[None]:
    """Stop showing an announcement. For admins."""
    return Call("DELETE", f"announcements/{announcement_id}", None)


def audit(**params: Any) -> Call[Page[models.AuditEntry]]:
    """Iterate over audit entries, newest first. `params`: actor, action, outcome, target_type,
    target, virtual_cluster, address, since, until, ordering; see the REST API."""
    return Call("GET", "audit", Page[models.AuditEntry], params=given(params))


def export_audit(params: Mapping[str, Any]) -> Call[None]:
    """Download all audit entries of a filter; `params`: those of `audit`, and format."""
    return Call("GET", "audit/export", None, params=given(params))


def images(**params: Any) -> Call[Page[models.Image]]:
    """Iterate over the images that your job files can name."""
    return Call("GET", "images", Page[models.Image], params=given(params))


def image(name: str) -> Call[models.Image]:
    """Return an image by its name in the catalogue."""
    return Call("GET", f"images/{name}", models.Image)


def create_image(name: str, reference: str, **fields: Any) -> Call[models.Image]:
    """Add an image to the catalogue. `fields`: description, framework, cuda_version, min_driver,
    virtual_clusters, and managed_by, a virtual cluster whose VC admins may change it."""
    body = {"name": name, "reference": reference, **fields}
    return Call("POST", "images", models.Image, json=body, repeatable=False)


def update_image(image: str, /, **fields: Any) -> Call[models.Image]:
    """Change an image: name, reference, and the `fields` of `create_image` but managed_by."""
    path = f"images/{image}"
    return Call("PATCH", path, models.Image, json=fields, repeatable="name" not in fields)


def inspect_image(name: str) -> Call[models.Image]:
    """Ask the registry for digest and size of an image now. For those who may change it."""
    return Call("POST", f"images/{name}/inspect", models.Image)


def image_nodes(name: str, **params: Any) -> Call[Page[models.ImageNode]]:
    """Iterate over the nodes that hold an image."""
    return Call("GET", f"images/{name}/nodes", Page[models.ImageNode], params=given(params))


def node_images(name: str, **params: Any) -> Call[Page[models.NodeImage]]:
    """Iterate over the images on a node: all for admins, else those of the catalogue that you may
    use."""
    return Call("GET", f"nodes/{name}/images", Page[models.NodeImage], params=given(params))


def prefetch_image(name: str, **fields: Any) -> Call[models.Prefetch]:
    """Ask that an image be pulled to nodes in advance. `fields`: virtual_cluster, nodes, hours."""
    path = f"images/{name}/prefetches"
    return Call("POST", path, models.Prefetch, json=fields, repeatable=False)


def prefetches(**params: Any) -> Call[Page[models.Prefetch]]:
    """Iterate over the prefetches of the last days, the newest first."""
    return Call("GET", "prefetches", Page[models.Prefetch], params=given(params))


def prefetch_nodes(prefetch_id: str, **params: Any) -> Call[Page[models.NodePrefetch]]:
    """Iterate over the nodes of a prefetch, with how far each is."""
    path = f"prefetches/{prefetch_id}/nodes"
    return Call("GET", path, Page[models.NodePrefetch], params=given(params))


def cancel_prefetch(prefetch_id: str) -> Call[None]:
    """Cancel what of a prefetch is not pulled yet."""
    return Call("DELETE", f"prefetches/{prefetch_id}", None)


def delete_image(name: str) -> Call[None]:
    """Remove an image from the catalogue. For those who may change it."""
    return Call("DELETE", f"images/{name}", None)


def check_image_rules(name: str, image: str) -> Call[models.ImageRulesCheck]:
    """Return whether jobs of a virtual cluster may use an image."""
    path = f"virtual-clusters/{name}/image-rules/check"
    return Call("GET", path, models.ImageRulesCheck, params={"image": image})


def image_rules(name: str) -> Call[models.ImageRules]:
    """Return the patterns of images that jobs of a virtual cluster may use; none: every image."""
    return Call("GET", f"virtual-clusters/{name}/image-rules", models.ImageRules)


def set_image_rules(name: str, patterns: Sequence[str]) -> Call[models.ImageRules]:
    """Replace the patterns of images that jobs of a virtual cluster may use. For VC admins."""
    path, body = f"virtual-clusters/{name}/image-rules", {"patterns": list(patterns)}
    return Call("PUT", path, models.ImageRules, json=body)


def registry_credentials(*, vc: str = "", **params: Any) -> Call[Page[models.RegistryCredential]]:
    """Iterate over your credentials for registries, or those of a virtual cluster."""
    return Call("GET", _logins(vc), Page[models.RegistryCredential], params=given(params))


def set_registry_credential(
    registry: str, username: str, password: str, *, vc: str = ""
) -> Call[models.RegistryCredential]:
    """Store what your jobs, or all jobs of a virtual cluster, log in with at a registry."""
    body = {"username": username, "password": password}
    return Call("PUT", f"{_logins(vc)}/{registry}", models.RegistryCredential, json=body)


def delete_registry_credential(registry: str, *, vc: str = "") -> Call[None]:
    """Remove your credentials for a registry, or those of a virtual cluster."""
    return Call("DELETE", f"{_logins(vc)}/{registry}", None)


def _logins(vc: str) -> str:
    return f"virtual-clusters/{vc}/registry-credentials" if vc else "me/registry-credentials"


def storages(**params: Any) -> Call[Page[models.Storage]]:
    """Iterate over the storages that your jobs can mount, by name. `params`: default."""
    return Call("GET", "storages", Page[models.Storage], params=given(params))


def storage(name: str) -> Call[models.Storage]:
    """Return a storage by its name."""
    return Call("GET", f"storages/{name}", models.Storage)


def create_storage(
    name: str, type: str, data: Mapping[str, str], **fields: Any
) -> Call[models.Storage]:
    """Make a storage. `type`: nfs, host_path or s3; `data`: server and path, or path, or
    endpoint, bucket, region, prefix and path_style; `fields`: access_key and secret_key of s3,
    description, mount_options, read_only, per_user, default, and managed_by, a virtual cluster
    whose VC admins may change it: a bucket of it. For admins, and with managed_by for these."""
    body = {"name": name, "type": type, "data": dict(data), **fields}
    return Call("POST", "storages", models.Storage, json=body, repeatable=False)


def update_storage(name: str, **fields: Any) -> Call[models.Storage]:
    """Change a storage: data, and the `fields` of `create_storage` but managed_by. For those who
    may change it."""
    return Call("PATCH", f"storages/{name}", models.Storage, json=fields)


def delete_storage(name: str) -> Call[None]:
    """Delete a storage, and nothing that lies in it. For those who may change it."""
    return Call("DELETE", f"storages/{name}", None)


def grant_storage(name: str, vc: str, *, read_only: bool = False) -> Call[models.Storage]:
    """Let the jobs of a virtual cluster mount a storage. For admins."""
    path, body = f"storages/{name}/grants/{vc}", {"read_only": read_only}
    return Call("PUT", path, models.Storage, json=body)


def grant_storage_to_group(
    name: str, group: str, *, read_only: bool = False
) -> Call[models.Storage]:
    """Let the jobs of the users of a group mount a storage in any virtual cluster. For admins."""
    path, body = f"storages/{name}/groups/{group}", {"read_only": read_only}
    return Call("PUT", path, models.Storage, json=body)


def revoke_storage_from_group(name: str, group: str) -> Call[None]:
    """Withdraw the grant to a group; containers that run keep the storage. For admins."""
    return Call("DELETE", f"storages/{name}/groups/{group}", None)


def datasets(**params: Any) -> Call[Page[models.Dataset]]:
    """Iterate over the datasets of your virtual clusters, the newest first. `params`:
    virtual_cluster, name."""
    return Call("GET", "datasets", Page[models.Dataset], params=given(params))


def create_dataset(
    virtual_cluster: str, name: str, storage: str, path: str = "", **fields: Any
) -> Call[models.Dataset]:
    """Make a dataset of a folder of a storage. `fields`: version, description, job."""
    body = {"virtual_cluster": virtual_cluster, "name": name, "storage": storage, "path": path}
    return Call("POST", "datasets", models.Dataset, json={**body, **fields}, repeatable=False)


def update_dataset(id: str, description: str) -> Call[models.Dataset]:
    """Describe a dataset anew."""
    body = {"description": description}
    return Call("PATCH", f"datasets/{id}", models.Dataset, json=body)


def delete_dataset(id: str) -> Call[None]:
    """Delete a dataset, and nothing of its files."""
    return Call("DELETE", f"datasets/{id}", None)


def storage_files(
    name: str, path: str = "", *, after: str = "", limit: int = 200
) -> Call[models.StorageFiles]:
    """Return the entries of a folder of a storage that come after a name."""
    params = given({"path": path, "after": after, "limit": limit})
    return Call("GET", f"storages/{name}/files", models.StorageFiles, params=params)


def storage_usage(name: str, path: str = "") -> Call[models.StorageUsage]:
    """Return how much lies below a folder of a storage."""
    params, timeout = given({"path": path}), LONG_S
    answer = models.StorageUsage
    return Call("GET", f"storages/{name}/usage", answer, params=params, timeout_s=timeout)


def remove_storage_file(
    name: str, path: str, *, recursive: bool = False
) -> Call[models.StorageRemoval]:
    """Remove a file or folder of a storage. Not `complete`: repeat it to remove the rest."""
    params: Mapping[str, Any] = {"path": path, "recursive": recursive}
    return Call(
        "DELETE",
        f"storages/{name}/files",
        models.StorageRemoval,
        params=params,
        timeout_s=LONG_S,
        gone=models.StorageRemoval(complete=True),
    )


def read_storage_file(name: str, path: str, first: int, size: int, etag: str = "") -> Call[bytes]:
    """Return `size` bytes of a file of a storage from number `first` on; fewer at its end. With the
    `etag` of `storage_usage` it is refused (`file_changed`) if the file was written to since."""
    headers = {"Range": f"bytes={first}-{first + size - 1}"}
    if etag:
        headers["If-Match"] = etag
    params = {"path": path}
    return Call("GET", f"storages/{name}/content", bytes, params=params, headers=headers)


def storage_upload(name: str, path: str, source: str = "") -> Call[models.StorageUpload]:
    """Return how many bytes of a file that is being uploaded have arrived from this `source`, as
    `write_storage_file` names it. The answer of an older server has no `source`."""
    params = given({"path": path, "source": source})
    return Call("GET", f"storages/{name}/upload", models.StorageUpload, params=params)


def write_storage_file(
    name: str, path: str, data: bytes, offset: int, *, last: bool, source: str = ""
) -> Call[models.StorageUpload]:
    """Append at most 2 MiB to a file of a storage that is being uploaded. `source`: your name for
    the version of the file; an upload goes on only with the same one. A repeated piece is refused
    (`upload_offset`) where the first one has arrived; the refusal's details have the `offset`."""
    params = given({"path": path, "offset": offset, "last": last, "source": source})
    headers = {"Content-Type": "application/octet-stream"}
    return Call(
        "PUT",
        f"storages/{name}/content",
        models.StorageUpload,
        params=params,
        content=data,
        headers=headers,
        timeout_s=LONG_S if last else 30.0,  # in which the server stores the whole file
    )


def revoke_storage(name: str, vc: str) -> Call[None]:
    """Withdraw a grant; containers that run keep the storage. For admins."""
    return Call("DELETE", f"storages/{name}/grants/{vc}", None)


def usage(**params: Any) -> Call[Page[models.UsageRow]]:
    """Iterate over sums of GPU time by the dimensions of `by`; times are GPU-seconds."""
    return Call("GET", "usage", Page[models.UsageRow], params=given(params))


def export_usage(params: Mapping[str, Any]) -> Call[str]:
    """Return the same sums as CSV."""
    return Call("GET", "usage/export", str, params=given(params))


def report(vc: str, month: str = "") -> Call[models.Report]:
    """Return the report of a month ("2026-11"; empty: the present one) of a virtual cluster."""
    params = given({"month": month or None})
    return Call("GET", f"virtual-clusters/{vc}/report", models.Report, params=params)


def export_report(vc: str, month: str = "") -> Call[str]:
    """Return the users of the report as CSV."""
    params = given({"month": month or None})
    return Call("GET", f"virtual-clusters/{vc}/report/export", str, params=params)


def budget(vc: str) -> Call[models.Budget]:
    """Return the GPU-hour budget of a virtual cluster and what is used of it."""
    return Call("GET", f"virtual-clusters/{vc}/budget", models.Budget)


def set_budget(vc: str, gpu_hours: int) -> Call[models.Budget]:
    """Set the guaranteed GPU-hours that a virtual cluster may use in a month. For admins."""
    body = {"gpu_hours": gpu_hours}
    return Call("PUT", f"virtual-clusters/{vc}/budget", models.Budget, json=body)


def remove_budget(vc: str) -> Call[models.Budget]:
    """Remove the budget of a virtual cluster. For admins."""
    return Call("DELETE", f"virtual-clusters/{vc}/budget", models.Budget)
