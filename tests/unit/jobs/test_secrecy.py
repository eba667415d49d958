"""Secrets on their way into a container, and out of what it prints."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_jobfile.secret_values import MIN_MASKED, masks_of
from skep_platform.core import encryption
from skep_platform.jobs.containers.job_secrets import Secrets
from skep_platform.jobs.containers.specs import ssh_key


def covered(text: str, masks: list[str]) -> str:
    for mask in masks:
        text = text.replace(mask, "*" * len(mask))
    return text


@given(
    secret=st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=8),
    before=st.text("ab:", max_size=5),
    after=st.text("yz", max_size=5),
)
def test_27_a_secret_and_its_encodings_are_covered_wherever_they_stand(secret, before, after):
    masks = masks_of([secret])
    assert secret not in covered(f"{before}{secret}{after}", masks)
    assert quote(secret, safe="") not in covered(quote(secret, safe=""), masks)
    encoded = base64.b64encode(f"{before}{secret}{after}".encode()).decode()
    shown = covered(encoded, masks).replace("*", "")
    # Only what its neighbours have a part in may show.
    borders = len(base64.b64encode(before.encode()) + base64.b64encode(after.encode()))
    assert len(shown) <= borders + 4


def test_short_values_and_words_of_everyday_are_no_masks():
    assert masks_of(["abc", "true", "false", ""]) == []
    assert all(len(mask) >= MIN_MASKED for mask in masks_of(["abcd", "pässwörd"]))


def test_each_line_of_a_key_is_covered():
    key = "-----BEGIN KEY-----\nabcdefgh\nijklmnop\n-----END KEY-----\n"
    masks = masks_of([key])
    assert covered("here: ijklmnop", masks) == "here: ********"
    assert masks == sorted(masks, key=len, reverse=True)


def sealed(**known: object) -> bytes:
    return encryption.seal(json.dumps(known).encode())


def test_what_is_sealed_is_opened_and_rendered():
    secrets = Secrets.opened(sealed(secrets={"token": "t0ken", "db": {"port": 5432}}))
    assert secrets.rendered("echo <% $secrets.token %>:<% $secrets.db.port %>") == (
        "echo t0ken:5432",
        True,
    )
    assert secrets.rendered("echo <% $parameters.x %>") == ("echo <% $parameters.x %>", False)
    assert {"t0ken", "5432"} <= set(secrets.masks())


def test_a_job_without_secrets_has_none():
    assert Secrets.opened(None).rendered("true") == ("true", False)
    assert Secrets.opened(None).masks() == []


def test_secrets_do_not_show_in_traces():
    assert "t0ken" not in repr(Secrets.opened(sealed(secrets={"token": "t0ken"})))


def test_the_key_of_a_gang_is_its_own_and_the_same_each_time(settings):
    raw = ssh_key("job", 1).private_bytes_raw()
    assert raw == ssh_key("job", 1).private_bytes_raw()
    others = {ssh_key(job, n).private_bytes_raw() for job, n in [("job", 2), ("other", 1)]}
    assert raw not in others
    settings.SECRET_KEY = "another"
    assert raw != ssh_key("job", 1).private_bytes_raw()


@pytest.mark.parametrize("text", ["", "x", "é" * 10])
def test_the_masks_of_any_text_are_text(text):
    assert all(isinstance(mask, str) for mask in masks_of([text]))
