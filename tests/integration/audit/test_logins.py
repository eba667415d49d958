"""Failed logins and wrong passwords in the audit log, without what was typed."""

from __future__ import annotations

import pytest
from tests.integration.audit.test_coverage import NEW_PASSWORD, refuse_secrets, reset_body
from tests.support.api_world import world

from skep_platform.accounts.models import User
from skep_platform.audit.models import AuditEntry

pytestmark = pytest.mark.django_db

__all__ = ["world"]  # a fixture


class TestLogins:
    def last(self) -> AuditEntry:
        return AuditEntry.objects.order_by("-id")[0]

    def test_a_wrong_password_is_recorded_with_the_user_and_without_the_password(self, world):
        anonymous = world.callers["anonymous"]
        assert (
            anonymous.post("/auth/login", {"username": "owner", "password": "hunter2"}).status_code
            == 401
        )
        entry = self.last()
        assert (entry.action, entry.outcome) == ("login.failed", "refused")
        assert (entry.actor_kind, entry.target_name) == ("anonymous", "owner")
        assert entry.target_id == str(User.objects.get(username="owner").pk)
        assert entry.address == "127.0.0.1"
        refuse_secrets(["hunter2"])

    def test_a_password_typed_as_the_user_name_is_not_recorded(self, world):
        body = {"username": "hunter2-typed-too-early", "password": "x"}
        world.callers["anonymous"].post("/auth/token", body)
        assert self.last().action == "login.failed"
        assert self.last().facts == {"code": "login_failed", "known_user": False}
        refuse_secrets(["hunter2-typed-too-early"])

    def test_too_many_failures_are_recorded_as_such(self, world):
        for _ in range(12):
            answer = world.callers["anonymous"].post(
                "/auth/login", {"username": "owner", "password": "x"}
            )
        assert answer.status_code == 429
        assert (self.last().action, self.last().facts["code"]) == ("login.failed", "throttled")

    def test_a_used_reset_link_is_recorded_as_refused(self, world):
        body = reset_body(world)
        anonymous = world.callers["anonymous"]
        assert anonymous.post("/auth/password-reset", body).status_code == 204
        assert anonymous.post("/auth/password-reset", body).status_code == 400
        assert (self.last().action, self.last().outcome) == ("user.password.reset", "refused")
        refuse_secrets([body["token"], body["new"]])

    def test_a_wrong_current_password_is_recorded(self, world):
        body = {"current": "hunter2", "new": NEW_PASSWORD}
        assert world.callers["owner"].post("/me/password", body).status_code == 400
        assert (self.last().action, self.last().actor_name) == ("login.failed", "owner")
