"""What OpenPAI's server made of 141 job files and of probes, recorded: the same comes out here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.openpai import COMPILED, PROBES, REFERENCE, recorded, reference

from skep_jobfile import InvalidJobFile, compile_job, read_facts

# Where we are right and the server is not; docs/from-openpai-jobs.md says why.
RIGHT_INSTEAD = {"gpu_negative": ("taskRoles.r.resourcePerInstance.gpu", "invalid_value")}
# The cluster that the server was given, as the recording says.
CLUSTER = """
skuTypes:
  K80: {gpu: 1, cpu: 4, memoryMB: 8192}
  M60: {gpu: 1, cpu: 4, memoryMB: 8192}
virtualClusters:
  default: {K80: 16, M60: 8}
  vc1: {K80: 8, M60: 8}
  VC1: {K80: 8, M60: 8}
  VC2: {K80: 8}
  cpu:
"""


def cases(name: str, *keys: str) -> list[Any]:
    path = REFERENCE / name
    if not path.exists():
        return [None]
    found = json.loads(path.read_text())
    for key in keys:
        found = found[key]
    return list(found)


@pytest.mark.parametrize("cluster", [None, CLUSTER], ids=["anywhere", "there"])
@pytest.mark.parametrize("case", cases(COMPILED, "cases"), ids=lambda c: c["file"] if c else "none")
def test_recorded_job_file(case: Any, cluster: str | None) -> None:
    text = reference(f"jobs/{case['file']}" if case else COMPILED).read_text()
    facts = read_facts(cluster) if cluster else None
    if not case["valid"]:
        with pytest.raises(InvalidJobFile):
            compile_job(text, cluster=facts)
        return
    found = compile_job(text, cluster=facts)
    assert {"file": case["file"], "valid": True, **found} == case


@pytest.mark.parametrize(
    "probe", cases(PROBES, "semantic_probes", "cases"), ids=lambda p: p["id"] if p else "none"
)
def test_recorded_decision(probe: Any) -> None:
    reference(PROBES)
    if probe["id"] in RIGHT_INSTEAD:
        assert probe["accepted"], "no exception any more"
        assert RIGHT_INSTEAD[probe["id"]] in problems(probe["yaml"])
    elif not probe["accepted"]:
        assert problems(probe["yaml"])
    else:
        found = compile_job(probe["yaml"])
        framework = found["default_scheduler"]
        role = framework["taskRoles"][0]
        assert found["entrypoints"] == {"r": probe["entrypoint"]}
        assert framework["framework_retryPolicy"] == probe["framework_retryPolicy"]
        assert role["completionPolicy"] == probe["completionPolicy"]
        assert role["ports"] == probe["ports"]


@pytest.mark.parametrize(
    "probe",
    [
        p
        for p in cases(PROBES, "semantic_probes", "cases")
        if p and isinstance(p.get("error"), list)
    ],
    ids=lambda p: p["id"],
)
def test_the_place_that_the_server_names_is_named(probe: Any) -> None:
    theirs = [error["dataPath"].replace("['", ".").replace("']", "") for error in probe["error"]]
    ours = [path for path, _ in problems(probe["yaml"])]
    assert any(f".{path}".startswith(place) for path in ours for place in theirs)


@pytest.mark.parametrize("case", cases(PROBES, "valid"), ids=lambda c: c["name"] if c else "none")
def test_a_job_file_of_the_servers_own_tests(case: Any) -> None:
    reference(PROBES)
    theirs = {
        name: role["entrypoint"] for name, role in case["expected_rendered"]["taskRoles"].items()
    }
    assert compile_job(case["yaml"])["entrypoints"] == theirs


@pytest.mark.parametrize("number", range(7))
def test_a_job_file_that_the_servers_own_tests_refuse(number: int) -> None:
    assert problems(recorded(PROBES)["invalid"][number]["yaml"])


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobFile) as refused:
        compile_job(text)
    return [(problem.path, problem.code) for problem in refused.value.problems]
