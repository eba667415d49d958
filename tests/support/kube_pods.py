"""Containers of a rendered chart, started by the Docker engine as a kubelet starts them.

What of a manifest reaches a container is taken over: image, command, arguments, environment (with
the values of Secrets and the node's own), user and groups, read-only root, capabilities, seccomp,
volumes, memory limit, host namespaces, probes, and the hook before the end. A Service is a
forwarder with its name, from its port to that of the pods which it selects, each in turn; one that
takes no connection is passed over.

What is not: scheduling, NetworkPolicies, ingress and storage classes.
"""

from __future__ import annotations

import base64
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import httpx
from docker.models.containers import Container
from docker.models.networks import Network
from docker.types import Mount

FORWARDER = """
import asyncio, itertools, sys
async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()
async def main():
    def accept(hosts, port):
        turns = itertools.cycle(hosts)
        async def serve(reader, writer):
            for host in itertools.islice(turns, len(hosts)):
                try:
                    opening = asyncio.open_connection(host, port)
                    there, back = await asyncio.wait_for(opening, 1)
                except OSError:
                    continue
                await asyncio.gather(copy(reader, back), copy(there, writer))
                return
            writer.close()
        return serve
    for rule in sys.argv[1:]:
        at, hosts, port = rule.split(":")
        await asyncio.start_server(accept(hosts.split(","), int(port)), "0.0.0.0", int(at))
    await asyncio.Event().wait()
asyncio.run(main())
"""


@dataclass(slots=True)
class Pod:
    """One container of a workload: `manifest` is its part of the pod's template."""

    name: str
    container: Container
    manifest: dict[str, Any]
    static_env: dict[str, str]
    spec: dict[str, Any]

    def probe(self, kind: str) -> None:
        """Repeat the probe as the kubelet does until it succeeds. Fails when it did not within as
        many tries as kill the container."""
        probe = self.manifest[kind]
        time.sleep(probe.get("initialDelaySeconds", 0))
        said = ""
        for _ in range(probe.get("failureThreshold", 3)):
            said = self._try(probe)
            if not said:
                return
            time.sleep(probe.get("periodSeconds", 10))
        raise AssertionError(f"{self.name}: {kind} fails: {said}\n{self.logs()}")

    def exec(self, *command: str) -> str:
        """Return what the command writes to stdout."""
        status, (output, errors) = self.container.exec_run(list(command), demux=True)
        assert status == 0, f"{self.name}: {command}: {output} {errors}\n{self.logs()}"
        return (output or b"").decode()

    def stop(self) -> None:
        """Run the hook before the end, then send SIGTERM. Fails when the container had to be
        killed."""
        started = time.monotonic()
        if hook := self.manifest.get("lifecycle", {}).get("preStop"):
            self.exec(*hook["exec"]["command"])
        grace = self.spec.get("terminationGracePeriodSeconds", 30)
        left = grace - (time.monotonic() - started)
        self.container.stop(timeout=int(left))
        self.container.reload()
        code = self.container.attrs["State"]["ExitCode"]
        assert code != 137, f"{self.name} does not end within {grace} s\n{self.logs()}"

    def restarts(self) -> int:
        self.container.reload()
        return int(self.container.attrs["RestartCount"])

    def written(self) -> list[str]:
        """Return the files outside of its mounts that it has made or changed."""
        paths = [m["mountPath"] for m in self.manifest.get("volumeMounts", [])]
        # /var/run is a link.
        folders = self.exec("realpath", "--canonicalize-missing", *paths).split()
        return [
            change["Path"]
            for change in self.container.diff() or []
            # The folders that lead to a mount are made for it.
            if not any(f"{folder}/".startswith(f"{change['Path']}/") for folder in folders)
        ]

    def logs(self, lines: int | str = 30) -> str:
        """Return the last `lines`, or "all"."""
        return self.container.logs(tail=lines).decode(errors="replace")

    def _try(self, probe: dict[str, Any]) -> str:
        """What is wrong, or ""."""
        if "exec" in probe:
            # A kubelet expands these by the values in the manifest alone, not by the environment.
            command = [expand(word, self.static_env) for word in probe["exec"]["command"]]
            seconds = str(probe.get("timeoutSeconds", 1))
            status, output = self.container.exec_run(["timeout", seconds, *command])
            return "" if status == 0 else f"{command} ends with {status}: {output.decode()}"
        get = probe["httpGet"]
        headers = {header["name"]: header["value"] for header in get.get("httpHeaders", [])}
        url = f"http://{self.address()}:{port_of(self.manifest, get['port'])}{get['path']}"
        try:
            answer = httpx.get(url, headers=headers, timeout=probe.get("timeoutSeconds", 1))
        except httpx.TransportError as error:
            return f"{url}: {error!r}"
        return "" if answer.status_code < 400 else f"{url}: {answer.status_code} {answer.text}"

    def address(self) -> str:
        self.container.reload()
        [network] = self.container.attrs["NetworkSettings"]["Networks"].values()
        return str(network["IPAddress"])


@dataclass(slots=True)
class Kubelet:
    """Starts what `documents` describe; `prefix` makes the names of this test unique."""

    client: docker.DockerClient
    documents: list[dict[str, Any]]
    network: Network
    prefix: str
    node: str = "node-1"
    secrets: dict[str, dict[str, str]] = field(default_factory=dict)
    _started: list[Container] = field(default_factory=list)
    _volumes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for document in self.documents:
            if document["kind"] == "Secret":
                plain = document.get("stringData", {})
                coded = {
                    k: base64.b64decode(v).decode() for k, v in document.get("data", {}).items()
                }
                self.secrets[document["metadata"]["name"]] = coded | plain

    def start_all(self, workload: dict[str, Any]) -> list[Pod]:
        """Start as many pods of a Deployment as it asks for."""
        return [self.start(workload, n) for n in range(workload["spec"]["replicas"])]

    def start(self, workload: dict[str, Any], replica: int = 0) -> Pod:
        """Start the only container of a Deployment, DaemonSet or Job."""
        spec = workload["spec"]["template"]["spec"]
        [manifest] = spec["containers"]
        assert not spec.get("initContainers")
        name = f"{workload['metadata']['name']}-{replica}"
        static, env = self._environment(manifest)
        security = spec.get("securityContext", {}) | manifest.get("securityContext", {})
        mounts, tmpfs = self._mounts(spec, manifest, security.get("fsGroup"))
        options: dict[str, Any] = {
            "image": manifest["image"],
            "name": f"{self.prefix}-{name}",
            "environment": env,
            "mounts": mounts,
            "tmpfs": tmpfs,
            **_security(security),
        }
        if "command" in manifest:
            options["entrypoint"] = [expand(word, env) for word in manifest["command"]]
            options["command"] = []
        if "args" in manifest:
            options["command"] = [expand(word, env) for word in manifest["args"]]
        policies = {"Always": "always", "OnFailure": "on-failure", "Never": "no"}
        options["restart_policy"] = {"Name": policies[spec.get("restartPolicy", "Always")]}
        if memory := manifest.get("resources", {}).get("limits", {}).get("memory"):
            options["mem_limit"] = memory.replace("Mi", "m").replace("Gi", "g")
        if spec.get("hostPID"):
            options["pid_mode"] = "host"
        if spec.get("hostNetwork"):
            options["network_mode"] = "host"
        else:
            options |= {"network": self.network.name, "hostname": name}
        container = self.client.containers.create(**options)
        self._started.append(container)
        container.start()
        return Pod(name, container, manifest, static, spec)

    def serve(self, service: dict[str, Any], image: str, published: int = 0) -> None:
        """Start what a Service is, from the pods of the workload that it selects, which are there
        already; `published` is a port of the loopback for its first one."""
        rules = []
        [target] = [d for d in self.documents if _is_selected(service, d)]
        [manifest] = target["spec"]["template"]["spec"]["containers"]
        pod = re.compile(rf"{self.prefix}-{target['metadata']['name']}-\d+")
        pods = [at.name for at in self._started if pod.fullmatch(at.name)]
        assert pods, f"no pod of {service['metadata']['name']}"
        for port in service["spec"]["ports"]:
            to = port_of(manifest, port.get("targetPort", port["port"]))
            rules.append(f"{port['port']}:{','.join(pods)}:{to}")
        name = service["metadata"]["name"]
        first = service["spec"]["ports"][0]["port"]
        alias = self.client.api.create_endpoint_config(aliases=[name])
        container = self.client.containers.create(
            image,
            ["-c", FORWARDER, *rules],
            entrypoint=["python"],
            user="root",
            name=f"{self.prefix}-service-{name}",
            network=self.network.name,
            networking_config={self.network.name: alias},
            ports={f"{first}/tcp": ("127.0.0.1", published)} if published else {},
        )
        self._started.append(container)
        container.start()

    def remove(self) -> None:
        for container in self._started:
            container.remove(force=True, v=True)
        for volume in self._volumes.values():
            self.client.volumes.get(volume).remove()

    def _environment(self, manifest: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the variables with a value in the manifest, and all."""
        static: dict[str, str] = {}
        env: dict[str, str] = {}
        for item in manifest.get("env", []):
            source = item.get("valueFrom")
            if source is None:
                static[item["name"]] = env[item["name"]] = expand(item.get("value", ""), env)
            elif "fieldRef" in source:
                fields = {"spec.nodeName": self.node, "status.hostIP": "127.0.0.1"}
                env[item["name"]] = fields[source["fieldRef"]["fieldPath"]]
            else:
                key = source["secretKeyRef"]
                found = self.secrets.get(key["name"], {}).get(key["key"])
                assert found is not None or key.get("optional"), f"{item['name']}: no {key}"
                if found is not None:
                    env[item["name"]] = found
        return static, env

    def _mounts(
        self, spec: dict[str, Any], manifest: dict[str, Any], group: int | None
    ) -> tuple[list[Mount], dict[str, str]]:
        volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
        mounts: list[Mount] = []
        tmpfs: dict[str, str] = {}
        for mount in manifest.get("volumeMounts", []):
            volume, path = volumes[mount["name"]], mount["mountPath"]
            if "emptyDir" in volume:
                # As with fsGroup: of root and this group, and what is made in it as well.
                tmpfs[path] = f"exec,mode=2777,gid={group}" if group else "exec,mode=777"
            elif "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                name = self._volume(claim, manifest["image"], group)
                mounts.append(Mount(path, name, no_copy=True))
            else:
                host = volume["hostPath"]
                if host.get("type") == "DirectoryOrCreate":
                    Path(host["path"]).mkdir(parents=True, exist_ok=True)
                read_only = mount.get("readOnly", False)
                mounts.append(Mount(path, host["path"], type="bind", read_only=read_only))
        return mounts, tmpfs

    def _volume(self, claim: str, image: str, group: int | None) -> str:
        """The volume of a claim, owned as a kubelet leaves it for fsGroup."""
        if claim not in self._volumes:
            name = self._volumes[claim] = f"{self.prefix}-{claim}"
            self.client.volumes.create(name)
            change = f"chgrp {group or 0} /volume && chmod 2775 /volume"
            self.client.containers.run(
                image,
                ["-c", change],
                entrypoint=["sh"],
                user="root",
                mounts=[Mount("/volume", name, no_copy=True)],
                remove=True,
            )
        return self._volumes[claim]


def expand(word: str, env: dict[str, str]) -> str:
    """`$(NAME)` as Kubernetes replaces it: an unknown name stays as it is."""
    return re.sub(r"\$\(([A-Za-z_]\w*)\)", lambda found: env.get(found[1], found[0]), word)


def port_of(manifest: dict[str, Any], port: int | str) -> int:
    """A port by number, or by its name in the container."""
    named = {p["name"]: p["containerPort"] for p in manifest.get("ports", [])}
    return port if isinstance(port, int) else int(named[port])


def _is_selected(service: dict[str, Any], workload: dict[str, Any]) -> bool:
    if workload["kind"] not in ("Deployment", "DaemonSet"):
        return False
    labels = workload["spec"]["template"]["metadata"]["labels"]
    return service["spec"]["selector"].items() <= labels.items()


def _security(context: dict[str, Any]) -> dict[str, Any]:
    """Options of the engine for a security context, that of the pod included."""
    user = context.get("runAsUser")
    assert not (context.get("runAsNonRoot") and not user), "a kubelet refuses it without a number"
    capabilities = context.get("capabilities", {})
    options: dict[str, Any] = {
        "read_only": context.get("readOnlyRootFilesystem", False),
        "cap_drop": capabilities.get("drop", []),
        "cap_add": capabilities.get("add", []),
        "privileged": context.get("privileged", False),
    }
    if user is not None:
        options["user"] = str(user)
    if "fsGroup" in context:
        options["group_add"] = [str(context["fsGroup"])]
    if context.get("allowPrivilegeEscalation") is False:
        options["security_opt"] = ["no-new-privileges:true"]
    return options
