"""One virtual cluster with one of everything in it, for tests that ask every route of the API."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone
from tests.support.finished_jobs import archived_like
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_platform.accounts import groups
from skep_platform.accounts.models import ApiToken, User
from skep_platform.cluster import announcements, maintenance
from skep_platform.cluster.services import issue_join_token
from skep_platform.files.models import Archive
from skep_platform.images.models import Prefetch
from skep_platform.images.services import create as create_image
from skep_platform.storage import datasets
from skep_platform.storage import services as storage
from skep_platform.telemetry.models import JobUse
from skep_platform.tenancy import memberships

SHA256 = "0" * 64


def make_users() -> dict[str, User]:
    """A member of the virtual cluster "team", who owns its job, and an admin."""
    return {"member": make_user("owner"), "admin": make_user("admin", admin=True)}


def make_all(users: Mapping[str, User]) -> dict[str, dict[str, Any]]:
    """Return the parameters of addresses that exist now, by the first part of the path."""
    owner, admin = users["member"], users["admin"]
    team = make_vc("team", quotas={"A100": 1}, members=[owner])
    create_image(admin, "private", "registry.example.org/x", virtual_clusters=["team"])
    expires_at = timezone.now() + timedelta(hours=1)
    prefetch = Prefetch.objects.create(image="private", reference="x", expires_at=expires_at)
    made = storage.create(admin, "team-data", "host_path", {"path": "/srv/team"})
    storage.grant(admin, made, "team")
    dataset = datasets.create(owner, "team", "set", "team-data")
    node = make_node("node-a", gpus=2)
    later = timezone.now() + timedelta(days=30)
    [window] = maintenance.plan(admin, ["node-a"], later, later + timedelta(hours=1), "fans")
    job = make_job(team, owner, name="train")
    attempt = place(job, list(node.devices.all())[:1])
    JobUse.objects.create(job=job, gpu_hours=1.0)
    Archive.objects.create(owner=owner, sha256=SHA256, size=1, unpacked_size=1, files=1)
    group = groups.create(admin, "research")
    groups.add_members(None, group, ["owner"])
    memberships.set_group(None, team, "research", "viewer")
    token = ApiToken.objects.filter(user=owner).first()
    return {
        "announcements": {"id": announcements.create(admin, "Maintenance on Monday.").pk},
        "attempts": {"id": attempt.pk, "stream": "stdout"},
        "auth": {"id": token.public_id} if token else {},
        "files": {"sha256": SHA256},
        "groups": {"name": "research", "username": "owner"},
        "images": {"name": "private"},
        "archived-jobs": {"id": archived_like(job).pk},
        "jobs": {"id": job.pk, "rank": 0},
        "me": {"registry": "registry.example.org"},
        "maintenance-windows": {"id": window.pk},
        "prefetches": {"id": prefetch.pk},
        "nodes": {"name": "node-a", "token_id": issue_join_token(None, 60)[0].pk},
        "datasets": {"id": dataset.pk},
        "storages": {"name": "team-data", "virtual_cluster": "team"},
        "users": {"username": "owner"},
        "virtual-clusters": {
            "name": "team",
            "username": "owner",
            "group": "research",
            "limit": "active_jobs",
            "registry": "registry.example.org",
        },
    }
