"""What all kinds of Kubeflow's jobs become before they are written as a job file."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import Any

from skep_jobfile.skep_extras import MAX_DURATION_S

NEVER = -1  # by the number of its tasks, a role does not end the job
ENTRYPOINT = "skep_entrypoint"  # runs the image's entrypoint, with its CMD or with arguments


@dataclass
class Role:
    name: str
    instances: int
    image: str
    cpus: int
    memory_mb: int
    gpus: int
    command: str  # "": there is none
    setup: list[str] = field(default_factory=list)  # commands before it
    environment: dict[str, str] = field(default_factory=dict)
    ports: list[str] = field(default_factory=list)
    shm_mb: int = 0
    min_succeeded: int | None = None


@dataclass
class Draft:
    name: str
    virtual_cluster: str = "default"
    roles: list[Role] = field(default_factory=list)
    retries: int = 0
    max_duration_s: int = 0
    elastic: tuple[int, int] | None = None
    host_network: bool = False
    ssh: bool = False  # among the tasks

    def job_file(self) -> dict[str, Any]:
        images = list(dict.fromkeys(role.image for role in self.roles))
        names = {uri: f"image_{n}" if n else "image" for n, uri in enumerate(images)}
        shared = self._shared_environment()
        extras = self._extras(shared)
        return {
            "protocolVersion": 2,
            "name": re.sub("[^a-zA-Z0-9_-]+", "-", self.name)[:255].strip("-") or "job",
            "type": "job",
            **({"jobRetryCount": self.retries} if self.retries else {}),
            "prerequisites": [
                {"type": "dockerimage", "name": name, "uri": uri} for uri, name in names.items()
            ],
            "taskRoles": {role.name: _role(role, names[role.image], shared) for role in self.roles},
            "defaults": {"virtualCluster": self.virtual_cluster},
            **({"extras": extras} if extras else {}),
        }

    def _shared_environment(self) -> dict[str, str]:
        first = self.roles[0].environment
        return {
            name: value
            for name, value in first.items()
            if all(role.environment.get(name) == value for role in self.roles)
        }

    def _extras(self, environment: dict[str, str]) -> dict[str, Any]:
        skep: dict[str, Any] = {
            "maxDuration": min(self.max_duration_s, MAX_DURATION_S),
            "elastic": self.elastic and dict(zip(("min", "max"), self.elastic, strict=True)),
            "network": "host" if self.host_network else "",
            "environment": environment,
        }
        skep = {key: value for key, value in skep.items() if value}
        ssh = {"plugin": "ssh", "parameters": {"jobssh": True}}
        return {
            **({"com.microsoft.pai.runtimeplugin": [ssh]} if self.ssh else {}),
            **({"skep": skep} if skep else {}),
        }


def _role(role: Role, image: str, shared: dict[str, str]) -> dict[str, Any]:
    own = {name: value for name, value in role.environment.items() if name not in shared}
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in own.items())
    ports = {"ports": dict.fromkeys(role.ports, 1)} if role.ports else {}
    return {
        "instances": role.instances,
        **(
            {}
            if role.min_succeeded is None
            else {"completion": {"minSucceededInstances": role.min_succeeded}}
        ),
        "dockerImage": image,
        "resourcePerInstance": {
            "cpu": role.cpus,
            "memoryMB": role.memory_mb,
            "gpu": role.gpus,
            **ports,
        },
        **({"extraContainerOptions": {"shmMB": role.shm_mb}} if role.shm_mb else {}),
        "commands": [*filter(None, [exports]), *role.setup, role.command or ENTRYPOINT],
    }
