"""Logins are remembered per server, in a file of our own."""

from __future__ import annotations

import pytest

from skep_client import config
from skep_client.config import Login
from skep_client.errors import SkepError


@pytest.fixture(autouse=True)
def empty_home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SKEP_SERVER", raising=False)
    monkeypatch.delenv("SKEP_TOKEN", raising=False)


def test_without_a_login_the_local_server_is_meant():
    assert config.login() == Login(config.LOCAL_SERVER, "")


def test_the_newest_login_is_the_present_one_and_others_are_kept():
    config.remember(Login("https://a.test", "one"))
    config.remember(Login("https://b.test", "two"))
    assert config.login() == Login("https://b.test", "two")
    assert config.stored_token("https://a.test") == "one"


def test_only_we_may_read_the_file():
    path = config.remember(Login("https://a.test", "one"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_environment_comes_first(monkeypatch):
    config.remember(Login("https://a.test", "one"))
    config.remember(Login("https://b.test", "two"))
    monkeypatch.setenv("SKEP_SERVER", "https://a.test/")
    assert config.login() == Login("https://a.test", "one")
    monkeypatch.setenv("SKEP_TOKEN", "three")
    assert config.login() == Login("https://a.test", "three")


def test_the_line_end_of_a_secret_from_a_file_is_no_part_of_the_token(monkeypatch):
    """Sent in a header it would be refused, with the token in the text of the error."""
    monkeypatch.setenv("SKEP_SERVER", "https://a.test\n")
    monkeypatch.setenv("SKEP_TOKEN", "three\n")
    assert config.login() == Login("https://a.test", "three")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tokens": 1}'])
def test_a_damaged_file_is_a_clear_error(text):
    path = config.remember(Login("https://a.test", "one"))
    path.write_text(text)
    with pytest.raises(SkepError, match=r"config\.json") as error:
        config.login()
    assert error.value.code == "config_damaged"


def test_a_token_is_never_sent_to_another_server(monkeypatch):
    config.remember(Login("https://a.test", "one"))
    monkeypatch.setenv("SKEP_SERVER", "https://evil.test")
    assert config.login().token == ""
