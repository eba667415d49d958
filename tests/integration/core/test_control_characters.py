"""Nothing that steers a terminal or reorders a page gets from users' text to people."""

from __future__ import annotations

import json

import pytest
from django.conf import settings
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from tests.support.jobs_world import attempts_of, job_file, placed, report
from tests.support.platform_api import Api
from tests.support.platform_factories import make_node

from skep_jobfile.plain import CONTROL, is_plain, plain, plain_data
from skep_platform.core.errors import SkepError
from skep_platform.core.models import Event
from skep_platform.gateway.callers import Credential
from skep_platform.gateway.socket import Socket

# Clipboard (OSC 52), window title, clear screen, the same by C1, and writing from right to left.
ATTACKS = ["\x1b]52;c;ZXZpbA==\x07", "\x1b]0;root\x07", "\x1b[2J", "\x9b2J", "\x9d52;c;x\x9c",
           "\u202egnp.exe", "\u2066x\u2069", "a\rb", "\x00"]  # fmt: skip


def harmless(text: str) -> bool:
    return not set(map(ord, json.loads(json.dumps(text)))) & CONTROL


@given(st.text())
def test_finding_s10_plain_text_has_no_control_characters_and_keeps_all_else(text):
    shown = plain(text)
    assert harmless(shown)
    assert is_plain(shown)
    assert len(shown) == len(text)
    assert all(a == b or ord(a) in CONTROL for a, b in zip(text, shown, strict=True))


@pytest.mark.parametrize("attack", ATTACKS)
def test_finding_s10_errors_repeat_no_control_characters(attack):
    error = SkepError(f"No {attack}", code="x", name=attack, several=[{attack: attack}])
    assert harmless(str(error.as_dict()["message"]))
    assert plain_data(error.details) == error.details


@pytest.mark.django_db
def test_a_session_cookie_that_no_row_can_have_is_that_of_no_one():
    spelled = "".join(f"\\{byte:03o}" for byte in b"\0abcdefgh0123456")
    cookie = f'{settings.SESSION_COOKIE_NAME}="{spelled}"'
    answer = Client(raise_request_exception=False).get("/api/v1/me", HTTP_COOKIE=cookie)
    assert answer.status_code == 401
    header = (b"cookie", cookie.encode())
    socket = Socket({"type": "websocket", "headers": [header]}, None, None)
    assert Credential.of(socket).user() is None


@pytest.mark.django_db
@pytest.mark.parametrize("attack", ATTACKS[:-1])
def test_finding_s10_a_job_file_brings_no_control_characters_into_answers(alice, vc, attack):
    file = job_file(vc)
    file["defaults"]["virtualCluster"] = f"x{attack}"
    file["taskRoles"]["worker"]["dockerImage"] = f"y{attack}"
    file["extras"]["hivedScheduler"]["taskRoles"] = {"worker": {"skuType": f"z{attack}"}}
    api = Api(alice)
    for answer in (api.post("/jobs", file), api.post("/jobs/check", file)):
        found = answer.json()
        assert plain_data(found) == found
    assert "invalid_character" in {problem["code"] for problem in found["errors"]}


@pytest.mark.django_db
@pytest.mark.parametrize("attack", ATTACKS)
def test_finding_s10_control_characters_are_refused_in_descriptions(admin, attack):
    answer = admin.post("/virtual-clusters", {"name": "x", "description": attack})
    assert answer.status_code == 400
    assert list(answer.json()["details"]["fields"]) == ["description"]
    assert admin.post("/virtual-clusters", {"name": "x", "description": "Zwei\nZeilen"})


@pytest.mark.django_db
def test_finding_s10_what_a_node_says_is_shown_without_control_characters(alice, vc):
    make_node("gpu-1", gpus=8)
    job = placed(alice, vc)
    report(attempts_of(job)[0], "failed", error_code="image_pull", message="\x1b]52;c;eA==\x07 no")
    (attempt,) = attempts_of(job)
    assert harmless(attempt.error_message)
    assert all(harmless(event.message) for event in Event.objects.filter(subject_id=job.pk))
    answer = Api(alice).get(f"/jobs/{job.pk}").json()
    assert plain_data(answer["exit_reason"]) == answer["exit_reason"]
