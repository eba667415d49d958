"""Inputs that cost a parser far more than they cost their sender."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

KIB = 1024
FULL = 500 * KIB


def role(**fields: Any) -> dict[str, Any]:
    return {
        "dockerImage": "image",
        "resourcePerInstance": {"gpu": 0, "cpu": 1, "memoryMB": 64},
        "commands": ["true"],
        **fields,
    }


def job(**fields: Any) -> dict[str, Any]:
    return {
        "protocolVersion": 2,
        "name": "hostile",
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "image", "uri": "test/image:1"}],
        "taskRoles": {"worker": role()},
        "defaults": {"virtualCluster": "vision"},
        **fields,
    }


def rendered(command: str, **fields: Any) -> str:
    return json.dumps(job(taskRoles={"worker": role(commands=[command])}, **fields))


def misspelt(count: int) -> str:
    """Roles that name images which nearly exist."""
    images = [
        {"type": "dockerimage", "name": f"{'ab' * 22}{n:05}", "uri": "i"} for n in range(1000)
    ]
    roles = {f"r{n}": role(dockerImage=f"{'ba' * 22}{n:05}") for n in range(count)}
    return json.dumps(job(prerequisites=images, taskRoles=roles))


TEXTS: dict[str, Callable[[], str]] = {
    # S1: patterns over text
    "empty lines": lambda: "\n" * 80_000,
    "empty lines, full": lambda: "\n" * FULL,
    "spaces": lambda: " " * FULL,
    "tabs": lambda: "\t" * FULL,
    "carriage returns": lambda: "\r" * FULL,
    "quotes before a version": lambda: "\"'" * (FULL // 2) + "apiVersion",
    "apiVersion without an end": lambda: ("apiVersion" + " " * 40 + "\n") * (FULL // 51),
    "sbatch, then empty lines": lambda: "#SBATCH -N 1\n" + "\n" * FULL,
    "srun many times in a line": lambda: "#SBATCH -N 2\n" + "srun " * (FULL // 5),
    "srun with image and no end": lambda: (
        "#SBATCH -N 2\n" + ("srun " * 300 + "--container-image\n") * (FULL // 1_518)
    ),
    "srun behind semicolons": lambda: "#SBATCH -N 2\n" + (";srun -x" * 240 + "\n") * 250,
    "spaces behind semicolons": lambda: "#SBATCH -N 2\n" + (";" + " " * 1_990 + "\n") * 250,
    "one long word of sbatch": lambda: "#SBATCH --comment=" + "x" * FULL,
    "thousands of sbatch lines": lambda: "#SBATCH -H\n" * (FULL // 12) + "true\n",
    "here document ends": lambda: (
        "#SBATCH -N 1\n" + "\n".join("SLURM_SCRIPT" + "_" * n for n in range(900))
    ),
    "fifty documents below each other": lambda: (
        "\n" * 400_000 + ("---\nkind: x\napiVersion: kubeflow.org/v1\n" * 49)
    ),
    "variables that double": lambda: (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: "
        "{replicas: 1, template: {spec: {containers: [{image: x, env: [{name: A0, value: xxxxxxxx}"
        + "".join(f", {{name: A{n}, value: $(A{n - 1})$(A{n - 1})}}" for n in range(1, 40))
        + "]}]}}}}}\n"
    ),
    # S4: growth
    "template of a long parameter": lambda: rendered(
        "<%$parameters.x%>" * 9_000, parameters={"x": "y" * 30_000}
    ),
    "template, a list in a list": lambda: rendered(
        "<%$parameters.x%>" * 9_000, parameters={"x": [["y" * 1000] * 20] * 10}
    ),
    "secret, many uses": lambda: rendered("<%$secrets.x%>" * 9_000, secrets={"x": "y" * 30_000}),
    "templates in plugins of many roles": lambda: json.dumps(
        job(
            parameters={"x": "y" * 10_000},
            taskRoles={f"r{n}": role() for n in range(100)},
            extras={
                "com.microsoft.pai.runtimeplugin": [
                    {
                        "plugin": "cmd",
                        "parameters": {
                            "callbacks": [
                                {"event": "taskStarts", "commands": ["<%$parameters.x%>" * 50]}
                            ]
                            * 100
                        },
                    }
                ]
            },
        )
    ),
    "alias of a long text": lambda: "a: &a " + "x" * 40_000 + "\nb: [" + "*a," * 4_500 + "*a]\n",
    "aliases of aliases": lambda: (
        "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    ),
    "merges of merges": lambda: (
        "a0: &a0 {x: 1}\n"
        + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1}}\n" for n in range(1, 30))
    ),
    "alias inside of its anchor": lambda: "a: &a [*a]\n",
    # S7: suggestions and changing tags
    "unknown names": lambda: misspelt(300),
    "unknown fields": lambda: json.dumps(job() | {f"{'naem' * 12}{n}": n for n in range(5_000)}),
    "unknown parameters": lambda: rendered(
        "".join(f"<%$parameters.{'ba' * 20}{n}%>" for n in range(3_000)),
        parameters={f"{'ab' * 20}{n}": 1 for n in range(2_000)},
    ),
    "changing tags": lambda: rendered(
        "".join(f"<%=a{n} b{n}=%>a{n}=<% %>=b{n}" for n in range(8_000))
    ),
    "open tags": lambda: rendered("<%" * 200_000),
    "open sections": lambda: rendered("<%#a%>" * 60_000),
    "half a tag, then spaces": lambda: rendered("<%=" + " " * 400_000),
    # Depth, and what is slow in a reader of YAML
    "brackets": lambda: "[" * FULL,
    "braces of JSON": lambda: '{"a":' * 90_000,
    "brackets of JSON": lambda: '{"a":' + "[" * 200_000,
    "exclamation marks": lambda: "!" * FULL,
    "question marks": lambda: "? " * (FULL // 2),
    "anchors": lambda: "[" + "&a a," * 90_000 + "]",
    "long digits": lambda: '{"a": ' + "1" * FULL + "}",
    "one key five thousand times": lambda: "{" + '"a":1,' * 60_000 + '"a":1}',
    "as many keys as there may be": lambda: "".join(f"k{n}: {n}\n" for n in range(4_990)),
    "merged sources": lambda: "a: &a {x: 1}\nb: {" + "<<: [" + "*a," * 3_000 + "*a]}\n",
}


def _header(kind: bytes, size: int, name: str = "x") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def _bomb() -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9) as file:
        file.write(_header(tarfile.REGTYPE, 10 * 1024**3))
        for _ in range(200):
            file.write(bytes(1024 * KIB))
    return packed.getvalue()


def archives() -> Iterator[tuple[str, bytes]]:
    """Gzipped tar files, small as they come."""
    digits = _padded(b"1" * 900_000)
    yield "digits in a PAX header", gzip.compress(_header(tarfile.XHDTYPE, 900_000) + digits)
    nested = _header(tarfile.XHDTYPE, 0) * 20_000
    yield "headers in front of headers", gzip.compress(nested)
    names = (_header(tarfile.GNUTYPE_LONGNAME, 512) + bytes(512)) * 20_000
    yield "long names in front of long names", gzip.compress(names)
    yield "a header of gigabytes", gzip.compress(_header(tarfile.XHDTYPE, 7 * 1024**3) + bytes(512))
    yield (
        "a sparse map",
        gzip.compress(
            _header(tarfile.XHDTYPE, 30)
            + _padded(b"30 GNU.sparse.map=" + b"1," * 5 + b"\n")
            + _header(tarfile.REGTYPE, 0)
            + bytes(1024)
        ),
    )
    yield "a file of zeros", _bomb()
