"""Bodies and preparations of requests about accounts, for the test that all leave an audit entry.

`world` is the one of the test of the routes."""

from __future__ import annotations

from typing import Any

from tests.support.platform_api import session

from skep_platform.accounts import device, external, recovery


def email_body(world: Any) -> dict[str, str]:
    owner = world.callers["owner"].user
    return {"token": recovery.confirm_token(owner, "o@example.org")}


def link_sso(world: Any) -> None:
    external.link(world.callers["owner"].user, "", "subject-1")


def device_body(world: Any) -> dict[str, Any]:
    return {"code": device.start("skep on a laptop", "submit")[1], "allow": True}


def device_token_body(world: Any) -> dict[str, str]:
    kept, code = device.start("skep on a laptop", "submit")
    device.decide(world.callers["owner"].user, code, True, "submit", None)
    return {"device_code": kept}


def other_session(world: Any) -> None:
    listed = session(world.callers["owner"].user).get("/me/sessions").json()
    world.ids["me/sessions"] = listed[0]["id"]
