"""Just enough of a Kubernetes API on loopback for `kubectl create --dry-run=client`: the list of
kinds. kubectl refuses to read a manifest without it, even when nothing is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

KINDS = {
    "v1": ["Service", "Secret", "PersistentVolumeClaim", "ServiceAccount", "ConfigMap"],
    "apps/v1": ["Deployment", "DaemonSet"],
    "batch/v1": ["Job"],
    "policy/v1": ["PodDisruptionBudget"],
    "networking.k8s.io/v1": ["Ingress", "NetworkPolicy"],
}


def _resources(group_version: str) -> dict[str, object]:
    return {
        "kind": "APIResourceList",
        "groupVersion": group_version,
        "resources": [
            {
                "name": _plural(kind.lower()),
                "singularName": kind.lower(),
                "namespaced": True,
                "kind": kind,
                "verbs": ["create", "get"],
            }
            for kind in KINDS[group_version]
        ],
    }


def _plural(kind: str) -> str:
    if kind.endswith("y"):
        return kind[:-1] + "ies"
    return kind + ("es" if kind.endswith("s") else "s")


def _groups() -> dict[str, object]:
    def group(group_version: str) -> dict[str, object]:
        name, version = group_version.split("/")
        entry = {"groupVersion": group_version, "version": version}
        return {"name": name, "versions": [entry], "preferredVersion": entry}

    return {"kind": "APIGroupList", "groups": [group(gv) for gv in KINDS if "/" in gv]}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        answers: dict[str, object] = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": _groups(),
            "/api/v1": _resources("v1"),
        } | {f"/apis/{gv}": _resources(gv) for gv in KINDS if "/" in gv}
        body = json.dumps(answers.get(path, {})).encode()
        self.send_response(200 if path in answers else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def kube_discovery() -> Iterator[str]:
    """Yields the address of the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
