"""Requests about oneself, jobs, their files and logs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from skep_client import models
from skep_client.archives import Body
from skep_client.calls.request import Call, given
from skep_client.model import Page

UPLOAD_S = 300.0
LONG_S = 60.0  # the server itself ends such a request after 20 s
YAML = {"Content-Type": "text/yaml"}


def readyz() -> Call[dict[str, bool]]:
    """Return whether the server answers requests, by its parts."""
    return Call("GET", "readyz", dict[str, bool], root="/")


def info() -> Call[models.Info]:
    """Return the version of the server and what it can do."""
    return Call("GET", "info", models.Info)


def token(
    username: str,
    password: str,
    name: str,
    *,
    scope: str = "admin",
    expires_in_s: int | None = None,
    code: str = "",
) -> Call[models.NewToken]:
    """Make a token. `scope`: read, submit or admin; `expires_in_s` None: the server's default;
    `code`: of the authenticator app, where MFA is set up."""
    body: dict[str, Any] = {"username": username, "password": password, "name": name}
    if code:
        body["code"] = code
    if scope != "admin":  # an older server knows no scopes
        body["scope"] = scope
    if expires_in_s is not None:
        body["expires_in_s"] = expires_in_s
    return Call("POST", "auth/token", models.NewToken, json=body, repeatable=False)


def tokens() -> Call[list[models.Token]]:
    """Return your own tokens, newest first."""
    return Call("GET", "auth/tokens", list[models.Token])


def delete_token(token_id: str) -> Call[None]:
    """Revoke one of your own tokens."""
    return Call("DELETE", f"auth/tokens/{token_id}", None)


def me() -> Call[models.Me]:
    """Return the user that the token belongs to."""
    return Call("GET", "me", models.Me)


def submit(text: str, client_token: str = "", *, ignore_storage: bool = False) -> Call[models.Job]:
    """Submit a job file. A submit that is repeated with the same `client_token` returns the same
    job; a token is generated when none is given, so that our own retries are safe.
    `ignore_storage` accepts a job whose storages are not mounted."""
    headers = {"Content-Type": "application/yaml"} | _key(client_token)
    params = {"ignore_storage": "true"} if ignore_storage else {}
    content = text.encode()
    return Call("POST", "jobs", models.Job, params=params, content=content, headers=headers)


def submit_jobs(
    files: Sequence[str], client_token: str = "", *, ignore_storage: bool = False
) -> Call[models.BatchResults]:
    """Submit at most 1,000 job files; each is accepted or refused by itself. A request that is
    repeated with the same `client_token` returns the same jobs."""
    body = {"files": list(files), "ignore_storage": ignore_storage}
    return _batch(body, client_token)


def sweep(
    text: str,
    values: Sequence[Mapping[str, Any]],
    name: str = "",
    client_token: str = "",
    *,
    first: int = 1,
    ignore_storage: bool = False,
) -> Call[models.BatchResults]:
    """Submit a job file once for each of at most 1,000 objects of `values`, with these values of
    its parameters, under `name` (default: that of the file) with a number, the first of which is
    `first`."""
    body = {"file": text, "sweep": [dict(one) for one in values], "first": first}
    body |= {"ignore_storage": ignore_storage}
    return _batch(body | given({"name": name}), client_token)


def _batch(body: Mapping[str, Any], client_token: str) -> Call[models.BatchResults]:
    return Call(
        "POST",
        "jobs/batch",
        models.BatchResults,
        json=dict(body),
        headers=_key(client_token),
        timeout_s=UPLOAD_S,
    )


def logout() -> Call[None]:
    """Delete the token that the request is made with."""
    return Call("POST", "auth/logout", None)


def check(text: str) -> Call[models.Check]:
    """Return what is wrong with a job file, and when it would start. Changes nothing."""
    headers = {"Content-Type": "application/yaml"}
    return Call("POST", "jobs/check", models.Check, content=text.encode(), headers=headers)


def jobs(**params: Any) -> Call[Page[models.JobSummary]]:
    """Iterate over the jobs that you may see, newest first. `params`: state, virtual_cluster,
    owner, tag, name, search, shared, cause, since, until, ordering; lists are comma lists."""
    return Call("GET", "jobs", Page[models.JobSummary], params=given(params))


def job(job_id: str) -> Call[models.Job]:
    """Return a job by its id."""
    return Call("GET", f"jobs/{job_id}", models.Job)


def convert(text: str, format: str = "auto") -> Call[models.Converted]:
    """Return a batch script of Slurm or a manifest of Kubeflow as a job file."""
    return Call(
        "POST",
        "jobs/convert",
        models.Converted,
        params={"format": format},
        content=text.encode(),
        headers={"Content-Type": "text/plain"},
    )


def retry(job_id: str) -> Call[models.Job]:
    """Start the next attempt of a job at once, without the pause before it."""
    return Call("POST", f"jobs/{job_id}/retry", models.Job, repeatable=False)


def end_retries(job_id: str) -> Call[models.Job]:
    """Try a job no more after a failure; one that waits for its next attempt ends at once."""
    return Call("POST", f"jobs/{job_id}/end-retries", models.Job)


def run_opportunistically(job_id: str) -> Call[models.Job]:
    """Let a waiting job start now on GPUs that no job uses, without its guarantee."""
    return Call("POST", f"jobs/{job_id}/opportunistic", models.Job, repeatable=False)


def move(job_id: str, node: str) -> Call[models.Job]:
    """Move a running job off a node: it ends and starts again on other nodes."""
    return Call("POST", f"jobs/{job_id}/move", models.Job, json={"node": node}, repeatable=False)


def save_image(job_id: str, reference: str, rank: int = 0) -> Call[models.ImageSave]:
    """Save the container of a running task as an image in a registry."""
    body = {"reference": reference, "rank": rank}
    path = f"jobs/{job_id}/image-saves"
    return Call("POST", path, models.ImageSave, json=body, repeatable=False)


def image_saves(job_id: str, **params: Any) -> Call[Page[models.ImageSave]]:
    """Iterate over the saves of a job's containers as images, the newest first."""
    return Call("GET", f"jobs/{job_id}/image-saves", Page[models.ImageSave], params=given(params))


def cancel_image_save(save_id: str) -> Call[None]:
    """Give up a save of a container as an image that is under way."""
    return Call("DELETE", f"image-saves/{save_id}", None)


def saved_images(**params: Any) -> Call[Page[models.ImageSave]]:
    """Iterate over the images that you saved from containers, the newest first."""
    return Call("GET", "me/saved-images", Page[models.ImageSave], params=given(params))


def archived_jobs(**params: Any) -> Call[Page[models.ArchivedJobSummary]]:
    """Iterate over the jobs in the archive that you may see, those submitted last first. `params`:
    state, virtual_cluster, owner, name, search, since, until; see the REST API."""
    return Call("GET", "archived-jobs", Page[models.ArchivedJobSummary], params=given(params))


def archived_job(job_id: str) -> Call[models.ArchivedJob]:
    """Return what is kept of an archived job."""
    return Call("GET", f"archived-jobs/{job_id}", models.ArchivedJob)


def run_again(
    job_id: str,
    name: str = "",
    memory_mb: int = 0,
    elsewhere: bool = False,
    client_token: str = "",
) -> Call[models.Job]:
    """Submit a job of yours again, with more memory or on other nodes. `client_token`: as of
    `submit`."""
    body = given({"name": name, "memory_mb": memory_mb}) | {"elsewhere": elsewhere}
    path = f"jobs/{job_id}/run-again"
    return Call("POST", path, models.Job, json=body, headers=_key(client_token))


def clone(job_id: str, name: str = "", client_token: str = "") -> Call[models.Job]:
    """Submit a job of yours again, with its secrets and working files. `client_token`: as of
    `submit`."""
    body = {"name": name} if name else {}
    return Call("POST", f"jobs/{job_id}/clone", models.Job, json=body, headers=_key(client_token))


def _key(client_token: str) -> dict[str, str]:
    """Return the header by which a request that is repeated makes no second job."""
    return {"Idempotency-Key": client_token or uuid.uuid4().hex}


def set_tags(job_id: str, tags: Sequence[str]) -> Call[models.Job]:
    """Replace the tags of a job."""
    return Call("PUT", f"jobs/{job_id}/tags", models.Job, json={"tags": list(tags)})


def stop_jobs(job_ids: Sequence[str]) -> Call[models.BulkResults]:
    """Stop at most 100 jobs; each is stopped or refused by itself."""
    return Call("POST", "jobs/bulk/stop", models.BulkResults, json={"jobs": list(job_ids)})


def tag_jobs(
    job_ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()
) -> Call[models.BulkResults]:
    """Add tags to at most 100 jobs and remove others; each is changed or refused by itself."""
    body = {"jobs": list(job_ids), "add": list(add), "remove": list(remove)}
    return Call("POST", "jobs/bulk/tags", models.BulkResults, json=body)


def set_visibility(job_id: str, visibility: str | None) -> Call[models.Job]:
    """Choose who sees a job: owner, members or everyone; None is what its virtual cluster says."""
    path, body = f"jobs/{job_id}/visibility", {"visibility": visibility}
    return Call("PUT", path, models.Job, json=body)


def set_idle_exemption(job_id: str, exempt: bool) -> Call[models.Job]:
    """Let a job keep GPUs that it does not use, or no longer. For VC admins and admins."""
    return Call("PUT", f"jobs/{job_id}/idle-exemption", models.Job, json={"exempt": exempt})


def job_shares(job_id: str) -> Call[models.JobShares]:
    """Return with whom a job is shared. For its owner and admins."""
    return Call("GET", f"jobs/{job_id}/shares", models.JobShares)


def share_job(job_id: str, kind: str, name: str) -> Call[models.JobShare]:
    """Let a user read a job, or the users of a group; `kind` is "users" or "groups"."""
    return Call("PUT", f"jobs/{job_id}/shares/{kind}/{name}", models.JobShare)


def unshare_job(job_id: str, kind: str, name: str) -> Call[None]:
    """End the sharing of a job with a user or group; `kind` is "users" or "groups"."""
    return Call("DELETE", f"jobs/{job_id}/shares/{kind}/{name}", None)


def set_priority(job_id: str, priority: int) -> Call[models.Job]:
    """Set the priority of a job, 0 to 1000. For its owner, VC admins and admins."""
    return Call("PUT", f"jobs/{job_id}/priority", models.Job, json={"priority": priority})


def attempts(job_id: str, **params: Any) -> Call[Page[models.JobAttempt]]:
    """Iterate over the placements of a job, newest first."""
    return Call("GET", f"jobs/{job_id}/attempts", Page[models.JobAttempt], params=given(params))


def use(job_id: str) -> Call[models.JobUse]:
    """Return what a finished job used of what it asked for. Raises SkepError `not_yet` until that
    is counted."""
    return Call("GET", f"jobs/{job_id}/use", models.JobUse)


def metrics(job_id: str, **params: Any) -> Call[models.JobMetrics]:
    """Return the use of GPUs, CPU and memory over the life of a job. `params`: rank, points."""
    return Call("GET", f"jobs/{job_id}/metrics", models.JobMetrics, params=given(params))


def user_metrics(job_id: str, **params: Any) -> Call[models.UserMetrics]:
    """Return what a job measured itself, by attempt. `params`: points (of each metric)."""
    return Call("GET", f"jobs/{job_id}/metrics/user", models.UserMetrics, params=given(params))


def compare_jobs(
    job_ids: Sequence[str] = (), tags: Sequence[str] = (), **params: Any
) -> Call[models.Compare]:
    """Return what several jobs measured: those with these ids, or the newest ones with all of these
    tags. `params`: points (of each metric)."""
    asked = {"jobs": ",".join(job_ids), "tag": ",".join(tags), **params}
    return Call("GET", "jobs/compare", models.Compare, params=given(asked))


def archive(sha256: str) -> Call[models.Archive]:
    """Return an archive of working files that you uploaded before."""
    return Call("GET", f"files/{sha256}", models.Archive)


def upload(body: Body) -> Call[models.Archive]:
    """Upload an archive. The server reads every file of it before it answers."""
    headers = {"Content-Type": "application/gzip", "Content-Length": str(body.size)}
    return Call("POST", "files", models.Archive, content=body, headers=headers, timeout_s=UPLOAD_S)


def stop(job_id: str) -> Call[models.Job]:
    """Ask for the end of a job; stopping an ended one changes nothing."""
    return Call("POST", f"jobs/{job_id}/stop", models.Job)


def tasks(job_id: str, **params: Any) -> Call[Page[models.Task]]:
    """Iterate over the tasks of a job by rank, each with its newest attempt. `params`: role,
    state."""
    return Call("GET", f"jobs/{job_id}/tasks", Page[models.Task], params=given(params))


def events(job_id: str, **params: Any) -> Call[Page[models.Event]]:
    """Iterate over what happened to a job, oldest first."""
    return Call("GET", f"jobs/{job_id}/events", Page[models.Event], params=given(params))


def logs(job_id: str, **params: Any) -> Call[models.JobLogs]:
    """Return a part of the log of a job: `chunks`, `next` (the cursor to go on with) and
    `complete`. `params`: cursor, limit (bytes), tail, rank, role, stream, attempt, times."""
    return Call("GET", f"jobs/{job_id}/logs", models.JobLogs, params=given(params))


def download_logs(job_id: str, params: Mapping[str, Any]) -> Call[None]:
    """Request the merged log as one transfer, as far as it is stored now."""
    return Call("GET", f"jobs/{job_id}/logs/download", None, params=given(params))


def search_logs(job_id: str, **params: Any) -> Call[models.Search]:
    """Search the merged log (`q`; `regex`, `ignore_case`). An answer takes a bounded time: go on
    with its `next`."""
    return Call("GET", f"jobs/{job_id}/logs/search", models.Search, params=given(params))


def apps(**params: Any) -> Call[Page[models.App]]:
    """Iterate over the apps that you may open, newest first. `params`: mine, ended."""
    return Call("GET", "apps", Page[models.App], params=given(params))


def app(app_id: str) -> Call[models.App]:
    """Return an app by its id."""
    return Call("GET", f"apps/{app_id}", models.App)


def job_apps(job_id: str, **params: Any) -> Call[Page[models.App]]:
    """Iterate over the apps of a job that you may open."""
    return Call("GET", f"jobs/{job_id}/apps", Page[models.App], params=given(params))


def create_app(type: str, image: str, virtual_cluster: str, **fields: Any) -> Call[models.App]:
    """Submit a job whose only work is an app. `fields`: name, gpus, cpus, memory_mb, storages,
    log_dir."""
    body = {"type": type, "image": image, "virtual_cluster": virtual_cluster, **given(fields)}
    return Call("POST", "apps", models.App, json=body, repeatable=False)


def attach_tensorboard(job_id: str, log_dir: str, task_role: str = "") -> Call[models.App]:
    """Start TensorBoard in a running job, for a folder of its first task of the role."""
    body = {"log_dir": log_dir} | ({"task_role": task_role} if task_role else {})
    return Call("POST", f"jobs/{job_id}/apps", models.App, json=body)


def share_app(app_id: str, shared: bool) -> Call[models.App]:
    """Share an app with those who may submit to its virtual cluster, or end that."""
    return Call("PATCH", f"apps/{app_id}", models.App, json={"shared": shared})
