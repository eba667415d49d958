"""Jobs that are too large for the frame to a node: refused at submit, and never in others' way."""

from __future__ import annotations

import json

import pytest
from tests.support.jobs_world import attempts_of, job_file, placed, state_of, states_of, tick
from tests.support.platform_factories import make_node, make_user

from skep_agent.protocol import MAX_TEXT_FRAME
from skep_platform.cluster.models import Node
from skep_platform.core import encryption
from skep_platform.jobs import services
from skep_platform.jobs.containers import desired
from skep_platform.jobs.containers.desired import desired_attempts
from skep_platform.jobs.models import Job, JobSecrets, TaskRole
from skep_platform.jobs.submission.job_file import InvalidJobFile
from skep_platform.tenancy.models import Membership

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr(desired, "_known", desired._Known())


def sent_jobs(node: Node) -> list[str]:
    """Return the jobs that the node is sent, as its session builds them."""
    Node.objects.filter(pk=node.pk).update(connected=True)
    node.refresh_from_db()
    state = desired.build_frame(node.pk, desired.SessionState(node.session_epoch))
    assert state is not None
    assert len(state.frame) < MAX_TEXT_FRAME
    return [spec.job_id for spec in state.attempts]


def swollen(user, vc) -> Job:
    """A placed job of before rendered sizes were counted: 200 uses of a secret of 70 KB."""
    job = placed(user, vc, gpus=0)
    secrets = json.dumps({"secrets": {"x": "s" * 70_000}, "auths": {}}).encode()
    JobSecrets.objects.create(job=job, sealed=encryption.seal(secrets))
    TaskRole.objects.filter(job=job).update(command="<% $secrets.x %> " * 200)
    return job


def errors(user, file) -> set[str]:
    with pytest.raises(InvalidJobFile) as refused:
        services.submit(user, json.dumps(file))
    return {problem.code for problem in refused.value.problems}


def test_finding_s2_rendered_secrets_are_counted_at_submit(alice, vc):
    file = job_file(vc, commands=["<% $secrets.x %> " * 200]) | {"secrets": {"x": "s" * 30_000}}
    assert errors(alice, file) == {"rendered_too_large"}
    file = job_file(vc, commands=["<% $secrets.x %> " * 5]) | {"secrets": {"x": "s" * 30_000}}
    assert errors(alice, file) == {"command_too_long"}
    file = job_file(vc, skep={"environment": {"A": "<% $secrets.x %>" * 4}})
    assert errors(alice, file | {"secrets": {"x": "s" * 30_000}}) == {"variable_too_long"}


def test_finding_s2_a_job_too_large_fails_alone_and_blocks_no_other(alice, vc):
    node = make_node("cpu-1", gpus=0, cpus=64, memory_mb=400_000)
    hostile, honest = swollen(alice, vc), placed(alice, vc, gpus=0)
    assert sent_jobs(node) == [str(honest.pk)]
    (attempt,) = attempts_of(hostile)
    assert (attempt.state, attempt.error_code) == ("FAILED", "spec_refused")
    assert "secrets" in attempt.error_message
    assert attempt.released_at is not None
    assert states_of(honest) == ["ASSIGNED"]
    assert sent_jobs(node) == [str(honest.pk)]  # and once more: nothing is left of it


def test_finding_s2_stopping_works_for_what_the_node_never_received(alice, vc):
    node = make_node("cpu-1", gpus=0, cpus=64, memory_mb=400_000)
    hostile = swollen(alice, vc)
    services.stop(alice, hostile.pk)
    assert state_of(hostile) == "STOPPING"
    assert sent_jobs(node) == []
    assert state_of(hostile) == "STOPPED"
    assert attempts_of(hostile)[0].released_at is not None


def test_finding_s2_no_user_fills_the_frame_of_a_node_alone(alice, vc):
    node = make_node("cpu-1", gpus=0, cpus=4000, memory_mb=4_000_000)
    early = placed(alice, vc, gpus=0)
    mallory = make_user("mallory")
    Membership.objects.create(vc=vc, user=mallory)
    for _ in range(3):
        placed(mallory, vc, gpus=0, instances=100, commands=["\x01" * 60_000])
    honest = placed(alice, vc, gpus=0)
    jobs = sent_jobs(node)
    assert jobs[0] == str(early.pk)
    assert str(honest.pk) in jobs
    assert 10 < len(jobs) < 100


def test_finding_s4_secrets_are_rendered_once_for_all_tasks_of_a_role(alice, vc):
    node = make_node("cpu-1", gpus=0, cpus=4000, memory_mb=4_000_000)
    file = job_file(vc, gpus=0, instances=40, commands=["echo <% $secrets.x %>"])
    services.submit(alice, json.dumps(file | {"secrets": {"x": "s" * 30_000}}))
    tick()
    specs = desired_attempts(node.pk)
    assert len(specs) == 40
    assert len({id(spec.command) for spec in specs}) == 1


@pytest.mark.parametrize(
    ("secrets", "code"),
    [
        ({f"s{n}": f"value-{n}" for n in range(65)}, "too_many_secrets"),
        ({"x": "s" * 65_537}, "secret_too_long"),
        ({"x": "\n".join(f"line-{n}-" + "y" * 40 for n in range(400))}, "too_many_secrets"),
        ({f"s{n}": "a" * (900 + n) for n in range(64)}, "too_many_secrets"),
    ],
)
def test_finding_s3_secrets_that_cost_too_much_to_mask_are_refused_at_submit(
    alice, vc, secrets, code
):
    assert errors(alice, job_file(vc) | {"secrets": secrets}) == {code}


def test_finding_s3_a_private_key_among_some_secrets_is_taken(alice, vc):
    key = "-----BEGIN-----\n" + "\n".join("k" * 60 + str(n) for n in range(50)) + "\n-----END-----"
    secrets = {"key": key, **{f"s{n}": f"a-password-{n}" for n in range(20)}}
    assert services.submit(alice, json.dumps(job_file(vc) | {"secrets": secrets}))
