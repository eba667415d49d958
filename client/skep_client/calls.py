"""Every request of the API as a value: what to send, and what the answer is made of."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from skep_client import models
from skep_client.archives import Body
from skep_client.model import Page

T = TypeVar("T")
UPLOAD_S = 300.0


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """`repeatable`: sending it twice changes nothing more than sending it once."""

    method: str
    path: str  # below `root`
    answer: type[T] | None
    params: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    content: bytes | Body | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    root: str = "/api/v1/"
    timeout_s: float = 30.0  # without a byte


def readyz() -> Call[dict[str, bool]]:
    return Call("GET", "readyz", dict[str, bool], root="/")


def info() -> Call[models.Info]:
    return Call("GET", "info", models.Info)


def token(
    username: str,
    password: str,
    name: str,
    *,
    scope: str = "admin",
    expires_in_s: int | None = None,
) -> Call[models.NewToken]:
    """Make a token. `scope`: read, submit or admin; `expires_in_s` None: the server's default."""
    body: dict[str, Any] = {"username": username, "password": password, "name": name}
    if scope != "admin":  # an older server knows no scopes
        body["scope"] = scope
    if expires_in_s is not None:
        body["expires_in_s"] = expires_in_s
    return Call("POST", "auth/token", models.NewToken, json=body, repeatable=False)


def tokens() -> Call[list[models.Token]]:
    """Your own tokens, newest first."""
    return Call("GET", "auth/tokens", list[models.Token])


def delete_token(token_id: str) -> Call[None]:
    return Call("DELETE", f"auth/tokens/{token_id}", None)


def me() -> Call[models.Me]:
    return Call("GET", "me", models.Me)


def submit(text: str, client_token: str = "") -> Call[models.Job]:
    """`client_token` makes a repeated submit the same job; one is made up when none is given, so
    that our own retries are safe."""
    headers = {
        "Content-Type": "application/yaml",
        "Idempotency-Key": client_token or uuid.uuid4().hex,
    }
    return Call("POST", "jobs", models.Job, content=text.encode(), headers=headers)


def logout() -> Call[None]:
    """Deletes the token that the request is made with."""
    return Call("POST", "auth/logout", None)


def check(text: str) -> Call[models.Check]:
    headers = {"Content-Type": "application/yaml"}
    return Call("POST", "jobs/check", models.Check, content=text.encode(), headers=headers)


def jobs(**params: Any) -> Call[Page[models.JobSummary]]:
    return Call("GET", "jobs", Page[models.JobSummary], params=given(params))


def job(job_id: str) -> Call[models.Job]:
    return Call("GET", f"jobs/{job_id}", models.Job)


def convert(text: str, format: str = "auto") -> Call[models.Converted]:
    """A batch script of Slurm or a manifest of Kubeflow as a job file."""
    return Call(
        "POST",
        "jobs/convert",
        models.Converted,
        params={"format": format},
        content=text.encode(),
        headers={"Content-Type": "text/plain"},
    )


def retry(job_id: str) -> Call[models.Job]:
    """The next attempt at once, without the pause before it."""
    return Call("POST", f"jobs/{job_id}/retry", models.Job, repeatable=False)


def clone(job_id: str, name: str = "") -> Call[models.Job]:
    """A new job of the same file, with its secrets and working files."""
    body = {"name": name} if name else {}
    return Call("POST", f"jobs/{job_id}/clone", models.Job, json=body, repeatable=False)


def set_tags(job_id: str, tags: Sequence[str]) -> Call[models.Job]:
    return Call("PUT", f"jobs/{job_id}/tags", models.Job, json={"tags": list(tags)})


def set_visibility(job_id: str, visibility: str | None) -> Call[models.Job]:
    """`visibility`: owner, members or everyone; None: as its virtual cluster says."""
    path, body = f"jobs/{job_id}/visibility", {"visibility": visibility}
    return Call("PUT", path, models.Job, json=body)


def set_priority(job_id: str, priority: int) -> Call[models.Job]:
    """For managers of the job's virtual cluster and admins: 0 to 1000."""
    return Call("PUT", f"jobs/{job_id}/priority", models.Job, json={"priority": priority})


def attempts(job_id: str, **params: Any) -> Call[Page[models.JobAttempt]]:
    """Every placement of a job, newest first."""
    return Call("GET", f"jobs/{job_id}/attempts", Page[models.JobAttempt], params=given(params))


def use(job_id: str) -> Call[models.JobUse]:
    """What a finished job used of what it asked for; `not_yet` until that is counted."""
    return Call("GET", f"jobs/{job_id}/use", models.JobUse)


def metrics(job_id: str, **params: Any) -> Call[models.JobMetrics]:
    return Call("GET", f"jobs/{job_id}/metrics", models.JobMetrics, params=given(params))


def archive(sha256: str) -> Call[models.Archive]:
    """Of one's own uploads."""
    return Call("GET", f"files/{sha256}", models.Archive)


def upload(body: Body) -> Call[models.Archive]:
    """The server looks at every file of it before it answers."""
    headers = {"Content-Type": "application/gzip", "Content-Length": str(body.size)}
    return Call("POST", "files", models.Archive, content=body, headers=headers, timeout_s=UPLOAD_S)


def stop(job_id: str) -> Call[models.Job]:
    return Call("POST", f"jobs/{job_id}/stop", models.Job)


def tasks(job_id: str, **params: Any) -> Call[Page[models.Task]]:
    return Call("GET", f"jobs/{job_id}/tasks", Page[models.Task], params=given(params))


def events(job_id: str, **params: Any) -> Call[Page[models.Event]]:
    return Call("GET", f"jobs/{job_id}/events", Page[models.Event], params=given(params))


def logs(job_id: str, **params: Any) -> Call[models.JobLogs]:
    return Call("GET", f"jobs/{job_id}/logs", models.JobLogs, params=given(params))


def download_logs(job_id: str, params: Mapping[str, Any]) -> Call[None]:
    return Call("GET", f"jobs/{job_id}/logs/download", None, params=given(params))


def search_logs(job_id: str, **params: Any) -> Call[models.Search]:
    """Lines with a text in them; each answer takes a bounded time: go on with its `next`."""
    return Call("GET", f"jobs/{job_id}/logs/search", models.Search, params=given(params))


def nodes(**params: Any) -> Call[Page[models.Node]]:
    return Call("GET", "nodes", Page[models.Node], params=given(params))


def cordon(name: str) -> Call[models.Node]:
    return Call("POST", f"nodes/{name}/cordon", models.Node)


def uncordon(name: str) -> Call[models.Node]:
    return Call("POST", f"nodes/{name}/uncordon", models.Node)


def remove_node(name: str) -> Call[None]:
    return Call("DELETE", f"nodes/{name}", None)


def create_join_token(node: str = "") -> Call[models.JoinToken]:
    body = {"node": node} if node else {}
    return Call("POST", "nodes/join-tokens", models.JoinToken, json=body, repeatable=False)


def join_tokens(**params: Any) -> Call[Page[models.JoinTokenRow]]:
    answer = Page[models.JoinTokenRow]
    return Call("GET", "nodes/join-tokens", answer, params=given(params))


def revoke_join_token(token_id: str) -> Call[None]:
    return Call("DELETE", f"nodes/join-tokens/{token_id}", None)


def declare_lost(name: str) -> Call[models.Node]:
    return Call("POST", f"nodes/{name}/declare-lost", models.Node)


def virtual_clusters(**params: Any) -> Call[Page[models.VirtualCluster]]:
    answer = Page[models.VirtualCluster]
    return Call("GET", "virtual-clusters", answer, params=given(params))


def create_virtual_cluster(name: str, description: str = "") -> Call[models.VirtualCluster]:
    body = {"name": name, "description": description}
    return Call("POST", "virtual-clusters", models.VirtualCluster, json=body, repeatable=False)


def set_quotas(name: str, quotas: Mapping[str, int]) -> Call[models.VirtualCluster]:
    body = {"quotas": dict(quotas)}
    return Call("PUT", f"virtual-clusters/{name}/quotas", models.VirtualCluster, json=body)


def set_member(
    name: str, username: str, role: str, *, confirm: bool = False
) -> Call[models.Member]:
    """`confirm`: also where no manager would be left."""
    path = f"virtual-clusters/{name}/members/{username}"
    return Call("PUT", path, models.Member, json={"role": role, "confirm": confirm})


def remove_member(name: str, username: str, *, confirm: bool = False) -> Call[None]:
    """The member's jobs in the virtual cluster stop."""
    path = f"virtual-clusters/{name}/members/{username}"
    return Call("DELETE", path, None, params={"confirm": 1} if confirm else {})


def members(name: str, **params: Any) -> Call[Page[models.Member]]:
    return Call(
        "GET", f"virtual-clusters/{name}/members", Page[models.Member], params=given(params)
    )


def cluster() -> Call[models.Cluster]:
    return Call("GET", "cluster", models.Cluster)


def given(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that were given; lists become comma lists."""
    return {
        name: ",".join(value) if isinstance(value, list | tuple) else value
        for name, value in params.items()
        if value is not None and value != [] and value != ""
    }
