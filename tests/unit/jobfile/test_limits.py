"""What the server and the agent compare with is the same, and written down once."""

from __future__ import annotations

import pytest

from skep_agent.isolation import env
from skep_jobfile import compile_job, references
from skep_jobfile.document import read
from skep_jobfile.importers import convert
from skep_limits import (
    NODE_VARIABLE_PREFIXES,
    PLATFORM_VARIABLE_PREFIXES,
    PLATFORM_VARIABLES,
    can_be_pulled,
    inner_parts,
    is_image_reference,
)


@pytest.mark.parametrize(
    ("reference", "known_name", "pulled"),
    [
        ("pytorch/pytorch:2.9", True, True),
        ("registry.example.org:5000/lab/train@sha256:" + "0" * 64, True, True),
        ("UPPER", True, False),
        ("Registry.example.org/lab/train:V1", True, True),
        ("lab/Train", False, False),
        ("a//b", False, False),
        ("", False, False),
        ("a" * 513, False, False),
    ],
)
def test_image_references(reference: str, known_name: bool, pulled: bool) -> None:
    assert (is_image_reference(reference), can_be_pulled(reference)) == (known_name, pulled)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a/./b//c", ("a", "b", "c")),
        ("./", ()),
        ("/etc/passwd", None),
        ("a/../../x", None),
        ("a\0b", None),
    ],
)
def test_names_of_archive_members(name: str, parts: tuple[str, ...] | None) -> None:
    assert inner_parts(name) == parts


def test_the_agent_refuses_the_variables_that_the_job_file_refuses() -> None:
    assert env.is_node_variable is references.is_node_variable


@pytest.mark.parametrize(
    "name",
    [
        *(f"{prefix}X" for prefix in PLATFORM_VARIABLE_PREFIXES + NODE_VARIABLE_PREFIXES),
        *sorted(PLATFORM_VARIABLES),
        "LD_LIBRARY_PATH",
    ],
)
def test_a_manifest_leaves_out_the_variables_that_the_job_file_refuses(name: str) -> None:
    found = convert(MANIFEST % name)
    assert compile_job(found.text)
    assert list(read(found.text).data["extras"]["skep"]["environment"]) == ["MINE"]
    assert any(name in note.message for note in found.notes)


MANIFEST = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 1
      template:
        spec:
          containers:
          - name: pytorch
            image: a/b:1
            command: ["python", "train.py"]
            env: [{name: %s, value: "1"}, {name: MINE, value: "2"}]
"""
