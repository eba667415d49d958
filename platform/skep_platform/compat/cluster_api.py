"""OpenPAI's routes of virtual clusters, storages, nodes, pods and alerts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Count, Sum
from rest_framework.request import Request
from rest_framework.response import Response

from skep_platform.accounts import current_user
from skep_platform.cells.queries import current_state, gpu_model
from skep_platform.cluster import queries as cluster
from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.compat.base import CompatView
from skep_platform.compat.job_shapes import debug_id
from skep_platform.core.errors import NotFound, SkepError
from skep_platform.jobs import visibility
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import JOB, AttemptState
from skep_platform.storage import queries as storages
from skep_platform.storage.models import Storage, StorageType
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler import usage

MOST_VCS = 2_000
MOST_NODES = 10_000
MOST_PODS = 20_000
MOST_ALERTS = 1_000
NAMESPACE = "default"  # of the pods of jobs in OpenPAI
MIB = {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}


def _megabytes(memory: str) -> int:
    found = re.fullmatch(r"([0-9]+)(Ki|Mi|Gi|Ti)", memory)
    return int(int(found[1]) * MIB[found[2]]) if found else 0


def _resources(gpus: float, cpus: float, memory_mb: float) -> dict[str, int]:
    cpu, gpu = int(cpus), int(gpus)
    return {"cpu": cpu, "vCores": cpu, "memory": int(memory_mb), "gpu": gpu, "GPUs": gpu}


class VcBase(CompatView):
    missing = "NoVirtualClusterError"
    taken = "ConflictVcError"


class PaiVirtualClustersView(VcBase):
    def get(self, request: Request) -> Response:
        """List the virtual clusters that the caller may see, by name."""
        return Response(described(request, list(tenancy.visible_to(request.user)[:MOST_VCS])))


class PaiVirtualClusterView(VcBase):
    def get(self, request: Request, name: str) -> Response:
        vc = tenancy.find(request.user, name)
        return Response(described(request, [vc])[vc.name])

    def put(self, request: Request, name: str) -> Response:
        return _not_here(request)

    def delete(self, request: Request, name: str) -> Response:
        return _not_here(request)


class PaiVcStatusView(VcBase):
    def put(self, request: Request, name: str) -> Response:
        return _not_here(request)


def _not_here(request: Request) -> Response:
    current_user.admin(request)
    message = "Virtual clusters are changed by Skep's own API and pages, as with Kubernetes."
    raise SkepError(message, code="not_implemented")


def described(request: Request, vcs: Iterable[VirtualCluster]) -> dict[str, Any]:
    """Return what virtual clusters own and use, by their names, and how many of their jobs the
    caller may see. Two queries and the state of the cells: as in HiveD, CPUs and memory are those
    that belong to the GPUs."""
    known = {vc.name: vc for vc in vcs}
    with current_state() as state:
        uses = usage.measure(state)
        sizes = {
            gpu_model(state, leaf): (sku.cpu / sku.gpu, _megabytes(sku.memory) / sku.gpu)
            for leaf, sku in state.built.config.skus.items()
            if sku.gpu
        }
    everything = sum(use.owned for use in uses.values()) or 1
    used = _used(known.values())
    jobs = dict(
        Job.objects.filter(
            visibility.of_jobs(request.user), vc__in=known.values(), state__in=JOB.active
        )
        .order_by()
        .values_list("vc__name")
        .annotate(Count("pk"))
    )
    found = {}
    for name in known:
        own = {model: use for (vc, model), use in uses.items() if vc == name}
        total = sum(use.owned for use in own.values())
        gpus = sum(use.used + use.borrowed for use in own.values())
        working = {
            model: use.owned - use.bad - use.cordoned - use.offline for model, use in own.items()
        }
        found[name] = {
            "capacity": total / everything * 100,
            "maxCapacity": total / everything * 100,
            "usedCapacity": gpus / everything * 100,
            "dedicated": False,
            "status": "RUNNING",
            "numJobs": jobs.get(name, 0),
            "resourcesUsed": _resources(gpus, *used.get(name, (0, 0))),
            "resourcesGuaranteed": _sized(working, sizes),
            "resourcesTotal": _sized({m: use.owned for m, use in own.items()}, sizes),
        }
    return found


def _sized(gpus: Mapping[str, int], sizes: Mapping[str, tuple[float, float]]) -> dict[str, int]:
    cpus = sum(n * sizes.get(model, (0, 0))[0] for model, n in gpus.items())
    memory = sum(n * sizes.get(model, (0, 0))[1] for model, n in gpus.items())
    return _resources(sum(gpus.values()), cpus, memory)


def _used(vcs: Iterable[VirtualCluster]) -> dict[str, tuple[float, float]]:
    """Return the CPUs and the memory that the tasks of virtual clusters hold."""
    rows = TaskAttempt.objects.filter(job__vc__in=vcs, released_at=None).order_by()
    sums = rows.values_list("job__vc__name").annotate(
        Sum("role__cpu_millis"), Sum("role__memory_mb")
    )
    return {name: (cpus / 1000, memory) for name, cpus, memory in sums}


class PaiSkuTypesView(VcBase):
    def get(self, request: Request, name: str = "") -> Response:
        """Get what one unit of each SKU has; with `vc` of those that a virtual cluster owns."""
        asked = name or request.query_params.get("vc", "")[:63]
        vc = tenancy.find(request.user, asked) if asked else None
        with current_state() as state:
            uses = usage.measure(state)
            skus = dict(state.built.config.skus)
            models = {leaf: gpu_model(state, leaf) for leaf in skus}
        owned = {
            model for (name, model), use in uses.items() if vc and name == vc.name and use.owned
        }
        return Response(
            {
                leaf: {
                    "gpu": sku.gpu,
                    "cpu": sku.cpu,
                    "memory": _megabytes(sku.memory),
                    "gpuModel": models[leaf],
                }
                for leaf, sku in skus.items()
                if vc is None or models[leaf] in owned or leaf in owned
            }
        )


class StorageBase(CompatView):
    missing = "NoStorageError"


class PaiStoragesView(StorageBase):
    def get(self, request: Request) -> Response:
        """List the storages that the caller may use."""
        rows = storages.visible_to(request.user).order_by("name")
        if default := request.query_params.get("default", ""):
            rows = rows.filter(default=default.lower() == "true")
        return Response({"storages": [_summary(one) for one in rows[:MOST_VCS]]})


def _summary(one: Storage) -> dict[str, Any]:
    return {
        "name": one.name,
        "share": not one.per_user,
        "volumeName": one.name,
        "default": one.default,
    }


def _storage(request: Request, one: Storage) -> dict[str, Any]:
    """Return a storage; where it lies is for admins."""
    admin = tenancy.is_admin(request.user)
    return {
        "name": one.name,
        "share": not one.per_user,
        "volumeName": one.name,
        "type": "nfs" if one.type == StorageType.NFS else "other",
        "data": one.data if admin else _hidden(one),
        "readOnly": one.read_only,
        "secretName": "",
        "mountOptions": one.mount_options if admin else [],
    }


def _hidden(one: Storage) -> dict[str, str]:
    return {"server": "", "path": ""} if one.type == StorageType.NFS else {}


class PaiStorageView(StorageBase):
    def get(self, request: Request, name: str) -> Response:
        return Response(_storage(request, storages.find(request.user, name)))


class PaiOldStorageView(StorageBase):
    """The deprecated routes of storages: configurations, and the servers that they name."""

    def get(self, request: Request, kind: str, name: str = "") -> Response:
        rows = storages.visible_to(request.user).order_by("name")
        found = list(rows.filter(name=name) if name else rows[:MOST_VCS])
        if name and not found:
            raise NotFound(f"Storage {name[:63]} is not found.")
        shown = [self._server(request, one) for one in found]
        if kind == "config":
            shown = [
                {
                    "name": one.name,
                    "default": one.default,
                    "servers": [one.name],
                    "mountInfos": [
                        {"mountPoint": f"/mnt/{one.name}", "server": one.name, "path": ""}
                    ],
                }
                for one in found
            ]
        return Response(shown[0] if name else shown)

    def _server(self, request: Request, one: Storage) -> dict[str, Any]:
        shown = _storage(request, one)
        return {"spn": one.name, "type": shown["type"], "data": shown["data"], "extension": {}}


class PaiKubernetesNodesView(CompatView):
    def get(self, request: Request) -> Response:
        """List the nodes as Kubernetes would. For admins."""
        current_user.admin(request)
        nodes = list(cluster.nodes()[:MOST_NODES])
        gpus = cluster.gpus([node.pk for node in nodes])
        items = [_node(node, gpus.get(node.pk, [])) for node in nodes]
        return Response({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": items})


def _node(node: Node, gpus: list[cluster.Gpu]) -> dict[str, Any]:
    healthy = sum(gpu.health == Device.Health.HEALTHY for gpu in gpus)
    ready = node.state == NodeState.ONLINE

    def sized(number: int) -> dict[str, str]:
        amount = {"cpu": str(node.cpu_millis // 1000), "memory": f"{node.memory_mb * 1024}Ki"}
        return {**amount, "nvidia.com/gpu": str(number)} if gpus else amount

    labels = {"kubernetes.io/hostname": node.name, "pai-worker": "true", **node.labels}
    beat = node.last_heartbeat_at.isoformat() if node.last_heartbeat_at else None
    return {
        "metadata": {"name": node.name, "uid": str(node.pk), "labels": labels, "annotations": {}},
        "spec": {"unschedulable": True} if node.cordoned or node.draining else {},
        "status": {
            "capacity": sized(len(gpus)),
            "allocatable": sized(healthy),
            "addresses": [
                {"type": "InternalIP", "address": node.address},
                {"type": "Hostname", "address": node.name},
            ],
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "reason": node.state,
                    "lastHeartbeatTime": beat,
                }
            ],
            "nodeInfo": {"containerRuntimeVersion": f"docker://{node.engine_version}"},
        },
    }


class PaiKubernetesPodsView(CompatView):
    def get(self, request: Request) -> Response:
        """List the tasks on nodes as pods. For admins."""
        current_user.admin(request)
        items = []
        if request.query_params.get("namespace", NAMESPACE) == NAMESPACE:
            rows = TaskAttempt.objects.filter(released_at=None).select_related(
                "job__owner", "job__vc", "role", "task", "node"
            )
            heavy = ("job__spec", "job__spec_text", "job__environment", "role__command")
            items = [_pod(one) for one in rows.defer(*heavy).order_by("pk")[:MOST_PODS]]
        return Response({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})


PHASES = {
    AttemptState.ASSIGNED.value: "Pending",
    AttemptState.PREPARING.value: "Pending",
    AttemptState.SUCCEEDED.value: "Succeeded",
    AttemptState.FAILED.value: "Failed",
    AttemptState.STOPPED.value: "Failed",
    AttemptState.LOST.value: "Unknown",
}


def _pod(one: TaskAttempt) -> dict[str, Any]:
    job, role, owner = one.job, one.role, one.job.owner.get_username()
    framework = debug_id(owner, job.name)
    asked = {"cpu": f"{role.cpu_millis}m", "memory": f"{role.memory_mb}Mi"}
    if role.gpus:
        asked["nvidia.com/gpu"] = str(role.gpus)
    return {
        "metadata": {
            "name": f"{framework}-{role.name}-{one.task.index}".lower(),
            "namespace": NAMESPACE,
            "uid": str(one.pk),
            "creationTimestamp": one.created_at.isoformat(),
            "labels": {
                "type": "kube-launcher-task",
                "userName": owner,
                "jobName": job.name,
                "virtualCluster": job.vc.name,
                "FC_FRAMEWORK_NAME": framework,
                "FC_TASKROLE_NAME": role.name,
                "FC_TASK_INDEX": str(one.task.index),
            },
            "annotations": {"hivedscheduler.microsoft.com/pod-gpu-isolation": ""},
        },
        "spec": {
            "nodeName": one.node.name,
            "containers": [
                {
                    "name": "app",
                    "image": role.image,
                    "resources": {"requests": asked, "limits": asked},
                }
            ],
        },
        "status": {
            "phase": PHASES.get(one.state, "Running"),
            "hostIP": one.node.address,
            "podIP": one.address or one.node.address,
            "startTime": one.started_at.isoformat() if one.started_at else None,
        },
    }


class PaiAlertsView(CompatView):
    def get(self, request: Request) -> Response:
        """List nodes that do not answer and GPUs that are bad, as alerts."""
        away = Node.objects.filter(state__in=(NodeState.UNREACHABLE, NodeState.LOST))
        bad = Device.objects.filter(health=Device.Health.BAD).exclude(node__state=NodeState.REMOVED)
        rows = bad.order_by("node__name", "index")
        columns = ("node__name", "index", "problem", "updated_at")
        alerts = [
            _alert("NodeNotReady", node.name, f"{node.name} is {node.state}.", node.updated_at)
            for node in away.order_by("name")[:MOST_ALERTS]
        ]
        alerts += [
            _alert("NvidiaGpuBad", name, f"GPU {index} of {name}: {problem or 'bad'}.", at)
            for name, index, problem, at in rows.values_list(*columns)[:MOST_ALERTS]
        ]
        return Response(alerts)


def _alert(name: str, node: str, summary: str, since: Any) -> dict[str, Any]:
    return {
        "labels": {"alertname": name, "severity": "warn", "node_name": node, "trigger_time": ""},
        "annotations": {"summary": summary},
        "startsAt": since.isoformat(),
        "status": {"state": "active", "silencedBy": [], "inhibitedBy": []},
        "state": "firing",
    }
