"""Requests about logins by a browser, service accounts, and the API tokens of all users."""

from __future__ import annotations

from typing import Any

from skep_client import models
from skep_client.calls.request import Call, given
from skep_client.model import Page


def start_device_login(name: str, scope: str = "submit") -> Call[models.DeviceCodes]:
    """Begin a login that a user allows in a browser; see `device_token`."""
    body = {"name": name, "scope": scope}
    return Call("POST", "auth/device", models.DeviceCodes, json=body, repeatable=False)


def device_token(device_code: str) -> Call[models.NewToken]:
    """Fetch the token of such a login. Raises SkepError `authorization_pending` until it is
    allowed, `slow_down`, `access_denied`, `expired_token`."""
    body = {"device_code": device_code}
    return Call("POST", "auth/device/token", models.NewToken, json=body, repeatable=False)


def ssh_keys() -> Call[models.SshKeys]:
    """Return your public ssh keys."""
    return Call("GET", "me/ssh-keys", models.SshKeys)


def add_ssh_key(name: str, public_key: str) -> Call[models.SshKey]:
    """Add a public ssh key, with which you log in to tasks that ask for your keys."""
    body = {"name": name, "public_key": public_key}
    return Call("POST", "me/ssh-keys", models.SshKey, json=body, repeatable=False)


def remove_ssh_key(key_id: str) -> Call[None]:
    """Remove one of your public ssh keys."""
    return Call("DELETE", f"me/ssh-keys/{key_id}", None)


def service_accounts(vc: str, **params: Any) -> Call[Page[models.ServiceAccount]]:
    """Iterate over the service accounts of a virtual cluster, by name. For its VC admins."""
    return Call("GET", _path(vc), Page[models.ServiceAccount], params=given(params))


def create_service_account(
    vc: str, name: str, description: str = "", role: str = "member"
) -> Call[models.ServiceAccount]:
    """Make a service account. `role`: viewer or member. For VC admins."""
    body = {"name": name, "description": description, "role": role}
    return Call("POST", _path(vc), models.ServiceAccount, json=body, repeatable=False)


def update_service_account(vc: str, name: str, **changes: Any) -> Call[models.ServiceAccount]:
    """Change a service account: description, role, is_active. For VC admins."""
    return Call("PATCH", f"{_path(vc)}/{name}", models.ServiceAccount, json=changes)


def delete_service_account(vc: str, name: str) -> Call[None]:
    """Remove a service account. Its tokens end and its jobs stop. For VC admins."""
    return Call("DELETE", f"{_path(vc)}/{name}", None)


def service_account_tokens(vc: str, name: str) -> Call[list[models.Token]]:
    """Return the tokens of a service account, newest first. For VC admins."""
    return Call("GET", f"{_path(vc)}/{name}/tokens", list[models.Token])


def create_service_account_token(
    vc: str,
    name: str,
    token_name: str,
    *,
    scope: str = "submit",
    expires_in_s: int | None = None,
    password: str = "",
    code: str = "",
) -> Call[models.NewToken]:
    """Make a token of a service account. `scope`: read or submit; `expires_in_s` None: the server's
    default; `password` and `code`: your own, as a token makes no tokens."""
    body: dict[str, Any] = {"name": token_name, "scope": scope, "expires_in_s": expires_in_s}
    body |= given({"password": password, "code": code})
    path = f"{_path(vc)}/{name}/tokens"
    return Call("POST", path, models.NewToken, json=body, repeatable=False)


def delete_service_account_token(vc: str, name: str, token_id: str) -> Call[None]:
    """Revoke a token of a service account. For VC admins."""
    return Call("DELETE", f"{_path(vc)}/{name}/tokens/{token_id}", None)


def all_tokens(**params: Any) -> Call[Page[models.OwnedToken]]:
    """Iterate over the tokens of all users, newest first. `params`: user. For admins."""
    return Call("GET", "tokens", Page[models.OwnedToken], params=given(params))


def revoke_token(token_id: str) -> Call[None]:
    """Revoke a token of any user. For admins."""
    return Call("DELETE", f"tokens/{token_id}", None)


def _path(vc: str) -> str:
    return f"virtual-clusters/{vc}/service-accounts"
