"""What only containers may know, and the files they start with, on their way to the node."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.api_world import OTHER_SSH_KEY, SSH_KEY
from tests.support.jobs_world import attempts_of, job_file, placed, report, tick
from tests.support.platform_factories import make_node, make_user

from skep_agent.protocol import AttemptSpec, Desired, parse_server_message
from skep_platform.accounts import ssh_keys
from skep_platform.cluster.models import Node
from skep_platform.files.models import Archive
from skep_platform.jobs import services
from skep_platform.jobs.containers import desired
from skep_platform.jobs.containers.desired import desired_attempts, desired_state
from skep_platform.jobs.models import Job, JobFiles, JobSecrets, TaskRole

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr(desired, "_known", desired._Known())


def submitted(alice: Any, vc: Any, skep: dict[str, Any] | None = None, **more: Any) -> Job:
    """A job with a secret, placed."""
    extras = more.pop("extras", {})
    file = job_file(vc, **more) | {"secrets": {"token": "t0ken-of-alice"}}
    file["extras"] |= {"skep": skep or {}, **extras}
    job = services.submit(alice, json.dumps(file))
    assert str(job.pk) in tick()
    return job


SHOWS = ["curl -H <% $secrets.token %> x"]
SSH = {"com.microsoft.pai.runtimeplugin": [{"plugin": "ssh", "parameters": {"jobssh": True}}]}


def test_a_command_with_a_secret_is_sent_as_one(alice, vc, node):
    submitted(alice, vc, commands=SHOWS)
    (spec,) = desired_attempts(node.pk)
    assert spec.command == "curl -H t0ken-of-alice x"
    assert spec.secret_command
    assert "t0ken-of-alice" in spec.masks


def test_a_command_without_one_is_not(alice, vc, node):
    submitted(alice, vc, commands=["true"])
    (spec,) = desired_attempts(node.pk)
    assert not spec.secret_command
    assert "t0ken-of-alice" in spec.masks  # a file of its own may hold it all the same


def test_variables_with_a_secret_are_apart(alice, vc, node):
    skep = {"environment": {"PLAIN": "1", "TOKEN": "Bearer <% $secrets.token %>"}}
    submitted(alice, vc, skep)
    (spec,) = desired_attempts(node.pk)
    assert spec.secret_env == {"TOKEN": "Bearer t0ken-of-alice"}
    assert spec.env["PLAIN"] == "1"
    assert "t0ken-of-alice" not in json.dumps(spec.env)


def test_27_secrets_are_in_no_row_and_no_trace(alice, vc, node):
    job = submitted(alice, vc, commands=SHOWS)
    job.refresh_from_db()
    role = TaskRole.objects.get(job=job)
    shown = f"{job.spec_text}{job.spec}{job.environment}{role.command}"
    assert "t0ken-of-alice" not in shown
    assert b"t0ken-of-alice" not in bytes(JobSecrets.objects.get(job=job).sealed)
    (spec,) = desired_attempts(node.pk)
    assert "t0ken-of-alice" not in repr(spec)


def test_secrets_that_cannot_be_opened_stop_no_other_job(alice, vc, node):
    locked = submitted(alice, vc, commands=SHOWS)
    JobSecrets.objects.filter(job=locked).update(sealed=b"of another key")
    other = placed(alice, vc)
    assert [spec.job_id for spec in desired_attempts(node.pk)] == [str(other.pk)]


def test_secrets_that_cannot_be_opened_end_no_job_that_runs_with_them(alice, vc, node):
    """A gateway with another key, as after a mistake, must not have nodes stop what they run."""
    locked = submitted(alice, vc, commands=SHOWS)
    epoch = Node.objects.get(pk=node.pk).session_epoch
    Node.objects.filter(pk=node.pk).update(connected=True)
    assert desired.build_frame(node.pk, desired.SessionState(epoch)) is not None
    JobSecrets.objects.filter(job=locked).update(sealed=b"of another key")
    desired._known._specs.clear()
    other = placed(alice, vc)
    assert desired.build_frame(node.pk, desired.SessionState(epoch)) is None
    services.stop(alice, locked.pk)
    frame = desired.build_frame(node.pk, desired.SessionState(epoch))
    assert [spec.job_id for spec in frame.attempts] == [str(other.pk)]


def test_a_node_goes_on_with_what_cannot_be_described_and_is_sent_all_else(alice, vc, node):
    locked = submitted(alice, vc, commands=SHOWS)
    epoch = Node.objects.get(pk=node.pk).session_epoch
    Node.objects.filter(pk=node.pk).update(connected=True)
    session = desired.SessionState(epoch, keeps=True)
    first = desired.build_frame(node.pk, session)
    assert first is not None
    assert not first.kept
    JobSecrets.objects.filter(job=locked).update(sealed=b"of another key")
    desired._known._specs.clear()
    other = placed(alice, vc)
    frame = desired.build_frame(node.pk, session._replace(revision=first.revision))
    assert [spec.job_id for spec in frame.attempts] == [str(other.pk)]
    (attempt,) = attempts_of(locked)
    sent = parse_server_message(frame.frame)
    assert (sent.keep, frame.kept) == ([str(attempt.pk)], (str(attempt.pk),))
    services.stop(alice, locked.pk)
    frame = desired.build_frame(node.pk, session._replace(revision=frame.revision))
    assert parse_server_message(frame.frame).keep == []


def test_secrets_that_cannot_be_opened_end_no_gang_that_is_prepared(alice, vc, node):
    locked = submitted(alice, vc, commands=SHOWS, instances=2)
    epoch = Node.objects.get(pk=node.pk).session_epoch
    Node.objects.filter(pk=node.pk).update(connected=True)
    assert desired.build_frame(node.pk, desired.SessionState(epoch)) is not None
    report(attempts_of(locked), "creating")
    JobSecrets.objects.filter(job=locked).update(sealed=b"of another key")
    desired._known._specs.clear()
    placed(alice, vc)
    assert desired.build_frame(node.pk, desired.SessionState(epoch)) is None


def test_a_spec_that_cannot_be_built_fails_its_job_and_no_other(alice, vc, node):
    broken, other = placed(alice, vc), placed(alice, vc)
    Job.objects.filter(pk=broken.pk).update(environment=["no", "mapping"])
    Node.objects.filter(pk=node.pk).update(connected=True)
    epoch = Node.objects.get(pk=node.pk).session_epoch
    frame = desired.build_frame(node.pk, desired.SessionState(epoch))
    assert [spec.job_id for spec in frame.attempts] == [str(other.pk)]
    (attempt,) = attempts_of(broken)
    assert (attempt.state, attempt.error_code) == ("FAILED", "spec_refused")
    assert attempt.released_at is not None


def test_image_credentials_are_those_of_the_image(alice, vc, node):
    file = job_file(vc) | {"secrets": {"password": "pull-it"}}
    file["prerequisites"][0]["auth"] = {"username": "bob", "password": "<% $secrets.password %>"}
    services.submit(alice, json.dumps(file))
    tick()
    (spec,) = desired_attempts(node.pk)
    assert (spec.image.username, spec.image.password) == ("bob", "pull-it")
    assert "pull-it" not in repr(spec)


def test_working_files_and_where_the_command_starts(alice, vc, node):
    archive = Archive.objects.create(
        owner=alice, sha256="a" * 64, size=123, unpacked_size=10240, files=1
    )
    skep = {"workingFiles": {"archive": f"sha256:{'a' * 64}", "path": "/workspace"}}
    job = submitted(alice, vc, skep)
    assert JobFiles.objects.get(job=job).archive == archive
    (spec,) = desired_attempts(node.pk)
    files = spec.working_files
    assert files is not None
    assert (files.sha256, files.size, files.path) == ("a" * 64, 123, "/workspace")
    assert spec.work_dir == spec.env["PAI_WORK_DIR"] == "/workspace"


def test_another_place_to_start_goes_first(alice, vc, node):
    submitted(alice, vc, {"workDir": "/code"})
    (spec,) = desired_attempts(node.pk)
    assert (spec.work_dir, spec.env["PAI_WORK_DIR"]) == ("/code", "/code")
    assert spec.working_files is None


def test_a_gang_shares_its_files_and_a_task_alone_has_none(alice, vc, node):
    placed(alice, vc)
    job = placed(alice, vc, instances=3)
    alone, *gang = desired_attempts(node.pk)
    assert alone.files == []
    assert {spec.job_id for spec in gang} == {str(job.pk)}
    names = [file.path.removeprefix("/run/skep/") for file in gang[0].files]
    assert names[:2] == ["hostfile", "ssh/config"]
    assert gang[0].files == gang[1].files == gang[2].files
    private = next(file for file in gang[0].files if file.mode == 0o400)
    assert any(mask in private.content for mask in gang[0].masks)


def test_another_attempt_has_other_keys(alice, vc, node):
    job = placed(alice, vc, instances=2)
    (first, _) = desired_attempts(node.pk)
    for attempt in attempts_of(job):
        attempt.index = 2
        attempt.save()
    desired._known._specs.clear()
    (second, _) = desired_attempts(node.pk)
    assert _key(first) != _key(second)


def _key(spec: AttemptSpec) -> str:
    return next(file.content for file in spec.files if file.mode == 0o400)


def test_the_ssh_plugin_starts_the_server_of_its_roles_before_the_commands(alice, vc, node):
    roles = {"worker": {"commands": ["train"]}, "ps": {"commands": ["serve"]}}
    plugin = {"plugin": "ssh", "taskroles": ["worker"]}
    plugin["parameters"] = {"userssh": {"type": "custom", "value": "ssh-ed25519 AAAA alice"}}
    submitted(alice, vc, roles=roles, extras={"com.microsoft.pai.runtimeplugin": [plugin]})
    by_role = {spec.task_role: spec for spec in desired_attempts(node.pk)}
    assert by_role["worker"].command == "sh /run/skep/ssh/start\ntrain"
    assert by_role["ps"].command == "sh /run/skep/ssh/client\nserve"
    assert (by_role["worker"].ssh_server, by_role["ps"].ssh_server) == (True, False)
    keys = next(f.content for f in by_role["ps"].files if f.path.endswith("authorized_keys"))
    assert "ssh-ed25519 AAAA alice" in keys


def test_the_keys_of_the_owner_log_in_where_the_job_asks_for_them(alice, vc, node):
    mine = ssh_keys.add(alice, "laptop", SSH_KEY).public_key
    ssh_keys.add(make_user("bob"), "his", OTHER_SSH_KEY)
    for asked, expected in (({"type": "system"}, True), ({"type": "custom", "value": ""}, False)):
        plugin = {"plugin": "ssh", "parameters": {"userssh": asked}}
        job = submitted(alice, vc, extras={"com.microsoft.pai.runtimeplugin": [plugin]})
        specs = desired_attempts(node.pk)
        (spec,) = [one for one in specs if one.job_id == str(job.pk)]
        keys = next(f.content for f in spec.files if f.path.endswith("authorized_keys"))
        assert (mine in keys) == expected
        assert OTHER_SSH_KEY not in keys


def test_a_task_alone_has_ssh_where_it_asks_for_it(alice, vc, node):
    submitted(alice, vc, commands=["train"], extras=SSH)
    (spec,) = desired_attempts(node.pk)
    assert spec.command.startswith("sh /run/skep/ssh/start\n")
    assert any(file.path == "/run/skep/ssh/start" for file in spec.files)


def test_200_tasks_on_a_node_are_sent_their_gang_once(alice, vc):
    node = make_node("cpu-1", gpus=0, cpus=1000, memory_mb=4_000_000)
    job = placed(alice, vc, gpus=0, instances=200)
    with CaptureQueriesContext(connection) as captured:
        state = desired_state(node.pk)
    assert len(captured) <= 8  # of limits and credentials, too, whatever the number of tasks
    assert len(state.attempts) == 200
    node.refresh_from_db()
    state = desired.build_frame(node.pk, desired.SessionState(node.session_epoch))
    assert state is not None
    whole = Desired(revision=1, attempts=desired_attempts(node.pk)).model_dump_json()
    assert len(state.frame) * 10 < len(whole)
    read = parse_server_message(state.frame)
    assert isinstance(read, Desired)
    assert read.attempts == desired_attempts(node.pk)
    assert {spec.env["RANK"] for spec in read.attempts} == {str(n) for n in range(200)}
    assert {spec.job_id for spec in read.attempts} == {str(job.pk)}
