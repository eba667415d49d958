"""A REST client for tests: speaks JSON under /api/v1 as one user, or as no one."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from knox.models import get_token_model
from rest_framework.test import APIClient

from skep_platform.accounts.models import User

ROOT = "/api/v1"


class Api:
    """`Api(user).get("/jobs")`; `Api()` is anonymous. The user is known by a real token."""

    def __init__(self, user: User | None = None) -> None:
        self.client = APIClient()
        self.user = user
        self.token = ""
        if user is not None:
            used = timezone.now()  # the first use of a new token is noted, by one more query
            _, self.token = get_token_model().objects.create(user=user, last_used_at=used)
            self.client.credentials(HTTP_AUTHORIZATION=f"Bearer {self.token}")

    def get(self, path: str, **query: Any) -> Any:
        return self.client.get(ROOT + path, query)

    def post(self, path: str, body: Any = None, **extra: Any) -> Any:
        return self.client.post(ROOT + path, body, format="json", **extra)

    def put(self, path: str, body: Any = None) -> Any:
        return self.client.put(ROOT + path, body, format="json")

    def patch(self, path: str, body: Any = None) -> Any:
        return self.client.patch(ROOT + path, body, format="json")

    def delete(self, path: str) -> Any:
        return self.client.delete(ROOT + path)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        return self.client.generic(
            method,
            ROOT + path,
            self.client._encode_data(body, "json")[0] or b"",
            content_type="application/json",
        )


def session(user: User) -> Api:
    """The user in a browser: known by a session, not by a token."""
    api = Api()
    api.user = user
    api.client.force_login(user)
    return api


def refusal(response: Any) -> tuple[int, str]:
    """(status, code) of an error, after checking its shape."""
    body = response.json()
    assert set(body) == {"code", "message", "details"}, body
    assert body["message"]
    return response.status_code, body["code"]
