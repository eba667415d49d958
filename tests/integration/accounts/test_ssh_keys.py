"""Public ssh keys of users: which are taken, and whose they are."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from tests.support.api_world import OTHER_SSH_KEY, SSH_KEY
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user

from skep_platform.accounts import ssh_keys
from skep_platform.accounts.models import SshKey

pytestmark = pytest.mark.django_db


@pytest.fixture
def api():
    return Api(make_user("ann"))


def line(key) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def add(api: Api, key: str = SSH_KEY, name: str = "laptop"):
    return api.post("/me/ssh-keys", {"name": name, "public_key": key})


def listed(api: Api) -> list[dict]:
    return api.get("/me/ssh-keys").json()["keys"]


def test_a_key_is_stored_without_its_comment_shown_and_removed(api):
    made = add(api, f"  {SSH_KEY} ann@laptop\n")
    assert made.status_code == 201, made.content
    (row,) = listed(api)
    assert (row["name"], row["public_key"]) == ("laptop", SSH_KEY)
    # What `ssh-keygen -l` says of this key.
    assert row["fingerprint"] == "SHA256:fe85JkIjo8VPe+XqXJGH5Mau1EMFdK1OdKvJUFicyA8"
    other = Api(make_user("bob"))
    assert listed(other) == []
    assert refusal(other.delete(f"/me/ssh-keys/{row['id']}")) == (404, "not_found")
    assert api.delete(f"/me/ssh-keys/{row['id']}").status_code == 204
    assert listed(api) == []


def test_the_usual_types_are_taken(api):
    keys = [
        line(ec.generate_private_key(ec.SECP256R1())),
        line(rsa.generate_private_key(65537, 2048)),
        "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIIqI4910CfGV"
        "/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29cAAAABHNzaDo=",
    ]
    for number, key in enumerate(keys):
        answer = add(api, key, f"key-{number}")
        assert answer.status_code == 201, answer.content
    assert [one["public_key"] for one in listed(api)] == keys


def test_what_is_no_key_or_a_weak_one_is_refused_and_not_repeated(api):
    private = rsa.generate_private_key(65537, 2048).private_bytes(
        Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()
    )
    for text, code in (
        (private.decode()[:4000], "ssh_key_private"),
        ("hunter2 is no key", "ssh_key_invalid"),
        (SSH_KEY[:-8], "ssh_key_invalid"),
        (f'command="rm -rf /" {SSH_KEY}', "ssh_key_invalid"),
        (f"{SSH_KEY}\n{OTHER_SSH_KEY}", "ssh_key_invalid"),
        (SSH_KEY.replace("ssh-ed25519", "ssh-rsa", 1), "ssh_key_invalid"),
        ("sk-ssh-ed25519@openssh.com " + SSH_KEY.split()[1], "ssh_key_invalid"),
        (SSH_KEY.replace("ssh-ed25519", "ssh-dss", 1), "ssh_key_invalid"),
        (line(rsa.generate_private_key(65537, 1024)), "ssh_key_weak"),
    ):
        answer = add(api, text)
        assert refusal(answer) == (400, code)
        assert b"hunter2" not in answer.content
        assert private[40:80] not in answer.content
    assert not SshKey.objects.exists()


def test_a_key_and_a_name_are_stored_once_and_their_number_is_bounded(api, monkeypatch):
    assert add(api).status_code == 201
    assert refusal(add(api, f"{SSH_KEY} other comment", "desk")) == (409, "ssh_key_known")
    assert refusal(add(api, OTHER_SSH_KEY)) == (409, "ssh_key_name_taken")
    assert add(Api(make_user("bob"))).status_code == 201, "another user may have the same key"
    monkeypatch.setattr(ssh_keys, "MAX_KEYS", 1)
    assert refusal(add(api, OTHER_SSH_KEY, "desk")) == (409, "too_many_ssh_keys")
