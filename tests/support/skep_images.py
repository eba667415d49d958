"""The images `server` and `agent`, built from this checkout by its Dockerfile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from docker.utils.build import exclude_paths
from tests.support.base_images import build, digest, node_base, python_base

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class SkepImages:
    server: str
    agent: str

    def chart_values(self) -> dict[str, dict[str, str]]:
        """The value `image` of the chart, for these images."""
        both = {"server": self.server.split(":"), "agent": self.agent.split(":")}
        return {name: {"repository": at, "tag": tag} for name, (at, tag) in both.items()}


def skep_images(client: docker.DockerClient) -> SkepImages:
    """Built once for each state of the checkout; the first time takes minutes, and downloads of
    400 MB."""
    return SkepImages(skep_image(client, "server"), skep_image(client, "agent"))


def skep_image(client: docker.DockerClient, target: str, **options: Any) -> str:
    """Build a stage of the Dockerfile; `options` are those of the engine's call."""
    bases = {"PYTHON_IMAGE": python_base(client), "NODE_IMAGE": node_base(client)}
    parts = [client.images.get(base).id.encode() for base in bases.values()]
    for path in [ROOT / "Dockerfile", *_context()]:
        parts += [str(path.relative_to(ROOT)).encode(), path.read_bytes()]
    return build(
        client,
        f"skep-test/{target}:1",
        digest(parts),
        path=str(ROOT),
        target=target,
        buildargs=bases,
        **options,
    )


def _context() -> list[Path]:
    """Return the files that the build is given."""
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    named = exclude_paths(str(ROOT), [p for p in patterns if p and not p.startswith("#")])
    return sorted(path for name in named if (path := ROOT / name).is_file())
