"""A security key in software: what a browser answers to `navigator.credentials`, as JSON."""

from __future__ import annotations

import json
import os
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import ES256
from fido2.utils import sha256, websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData
from tests.support.platform_api import Api
from tests.support.platform_factories import PASSWORD

FLAG = AuthenticatorData.FLAG


class SoftKey:
    """One credential for one host. `origin` is where its browser believes to be."""

    def __init__(self, host: str = "localhost", origin: str = "http://localhost") -> None:
        self.host, self.origin = host, origin
        self.secret = ec.generate_private_key(ec.SECP256R1())
        self.id = os.urandom(32)
        self.counter = 0
        self.user_handle = b""
        self.verified = True

    def create(self, options: dict[str, Any]) -> dict[str, Any]:
        """Answer `credentials.create`."""
        self.user_handle = options["user"]["id"].encode()
        public = ES256.from_cryptography_key(self.secret.public_key())
        data = AttestedCredentialData.create(b"\0" * 16, self.id, public)
        made = AttestationObject.create("none", self._data(FLAG.AT, data), {})
        client = self._client("webauthn.create", options["challenge"])
        return self._json({"clientDataJSON": client, "attestationObject": bytes(made)})

    def get(self, options: dict[str, Any]) -> dict[str, Any]:
        """Answer `credentials.get`."""
        self.counter += 1
        data = self._data()
        client = self._client("webauthn.get", options["challenge"])
        signature = self.secret.sign(data + sha256(client), ec.ECDSA(hashes.SHA256()))
        answer = {"authenticatorData": data, "clientDataJSON": client, "signature": signature}
        found = self._json(answer)
        found["response"]["userHandle"] = self.user_handle.decode()
        return found

    def sign(self, challenge: dict[str, Any]) -> dict[str, Any]:
        """Return the body that a page sends for a challenge of the server."""
        return {"credential": self.get(challenge["options"]), "state": challenge["state"]}

    def enrol(self, browser: Api, *, passkey: bool = False, name: str = "blue key") -> Any:
        """Add the key to the account of a browser that confirmed its password."""
        challenge = browser.post("/me/mfa/keys/start", {"passkey": passkey}).json()
        made = self.create(challenge["options"])
        body = {"name": name, "credential": made, "state": challenge["state"]}
        return browser.post("/me/mfa/keys", body)

    def _data(self, more: int = 0, credential: bytes = b"") -> bytes:
        flags = FLAG.UP | (FLAG.UV if self.verified else 0) | more
        return bytes(
            AuthenticatorData.create(sha256(self.host.encode()), flags, self.counter, credential)
        )

    def _client(self, kind: str, challenge: str) -> bytes:
        body = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps(body).encode()

    def _json(self, response: dict[str, bytes]) -> dict[str, Any]:
        encoded = {name: websafe_encode(value) for name, value in response.items()}
        name = websafe_encode(self.id)
        return {
            "id": name,
            "rawId": name,
            "type": "public-key",
            "response": encoded,
            "clientExtensionResults": {},
        }


def confirm(browser: Api) -> None:
    """Give the password again, as the settings page asks for it."""
    browser.client.defaults["SERVER_NAME"] = "localhost"
    assert browser.post("/me/confirm", {"password": PASSWORD}).status_code == 204


def new_key_body(browser: Api) -> dict[str, Any]:
    """Return what the page sends to keep a new key."""
    confirm(browser)
    challenge = browser.post("/me/mfa/keys/start", {}).json()
    made = SoftKey().create(challenge["options"])
    return {"name": "blue key", "credential": made, "state": challenge["state"]}
