"""`skep ssh-keys`."""

from __future__ import annotations

import json

from tests.unit.client.test_cli_jobs import server, skep

__all__ = ["server"]  # a fixture
KEY = {
    "id": "k1",
    "name": "ann@laptop",
    "public_key": "ssh-ed25519 AAAA",
    "fingerprint": "SHA256:abc",
    "created_at": "2026-11-22T10:00:00Z",
}


def test_a_key_is_added_by_its_comment_listed_and_removed(server, tmp_path):
    file = tmp_path / "id_ed25519.pub"
    file.write_text("ssh-ed25519 AAAA ann@laptop\n")
    sent = server.post("/me/ssh-keys").respond(201, json=KEY)
    assert "SHA256:abc" in skep("ssh-keys", "add", str(file)).output
    body = json.loads(sent.calls[0].request.content)
    assert body == {"name": "ann@laptop", "public_key": "ssh-ed25519 AAAA ann@laptop"}
    server.get("/me/ssh-keys").respond(json={"keys": [KEY]})
    output = skep("ssh-keys").output
    assert "ssh-ed25519" in output
    assert "SHA256:abc" in output
    removed = server.delete("/me/ssh-keys/k1").respond(204)
    assert skep("ssh-keys", "remove", "SHA256:abc").exit_code == 0
    assert removed.called


def test_a_private_key_is_not_sent(server, tmp_path):
    file = tmp_path / "id_ed25519"
    file.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n")
    refused = skep("ssh-keys", "add", str(file))
    assert (refused.exit_code, "hunter2" in refused.output) == (2, False)
    assert "private key" in refused.output
