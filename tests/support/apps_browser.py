"""What a browser does with an app of a job, step by step: a client without a page."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from tests.support.stack import Stack

NAVIGATION = {
    "Accept": "text/html",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Site": "cross-site",
}
FETCH = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"}


class Browser:
    """Keeps its cookies by host, as browsers do. `platform` is logged in at Skep's pages."""

    def __init__(self, skep: Stack, username: str, password: str) -> None:
        self.skep = skep
        self.platform = httpx.Client(base_url=skep.url, timeout=60)
        self.platform.get("/login")
        answer = self.post("/api/v1/auth/login", {"username": username, "password": password})
        assert answer.status_code == 200, answer.text
        self.cookies: dict[str, dict[str, str]] = {}  # host -> name -> value
        # Every name below localhost is this machine.
        self._apps = httpx.Client(base_url=f"http://127.0.0.1:{self._port}", timeout=60)

    @property
    def _port(self) -> int:
        return urlsplit(self.skep.apps_url).port or 80

    def post(self, path: str, body: Any) -> httpx.Response:
        token = self.platform.cookies.get("skep_csrf") or ""
        headers = {"X-CSRFToken": token, "Referer": self.skep.url, "Origin": self.skep.url}
        return self.platform.post(path, json=body, headers=headers)

    def request(self, app_url: str, path: str = "/", method: str = "GET", **more: Any) -> Any:
        host = urlsplit(app_url).netloc
        jar = self.cookies.setdefault(host, {})
        headers = {"Host": host, **more.pop("headers", FETCH)}
        if jar:
            headers["Cookie"] = "; ".join(f"{k}={v}" for k, v in jar.items())
        answer = self._apps.request(method, path, headers=headers, **more)
        self._apps.cookies.clear()
        for line in answer.headers.get_list("set-cookie"):
            name, _, value = line.split(";")[0].partition("=")
            jar[name] = value
            if "Max-Age=0" in line:
                del jar[name]
        return answer

    def to_login(self, app: dict[str, Any], path: str = "/") -> str:
        """Open an app's address, not logged in there; return the state with which it sends the
        browser to Skep."""
        self.cookies.setdefault(urlsplit(app["url"]).netloc, {}).pop("skep_app", None)
        answer = self.request(app["url"], path, headers=NAVIGATION)
        assert answer.status_code == 303, answer.text
        location = answer.headers["location"]
        assert location.startswith(f"{self.skep.url}/apps/{app['id']}?state=")
        return parse_qs(urlsplit(location).query)["state"][0]

    def code_for(self, app: dict[str, Any], state: str) -> httpx.Response:
        """What Skep's page asks for the browser."""
        return self.post(f"/api/v1/apps/{app['id']}/open", {"state": state})

    def enter(self, app: dict[str, Any], path: str = "/") -> httpx.Response:
        """All of it; returns the app's page."""
        answer = self.code_for(app, self.to_login(app, path))
        assert answer.status_code == 200, answer.text
        url = urlsplit(answer.json()["url"])
        login = self.request(app["url"], f"{url.path}?{url.query}", headers=NAVIGATION)
        assert login.status_code == 303, login.text
        return self.request(app["url"], login.headers["location"], headers=NAVIGATION)

    def socket_headers(self, app: dict[str, Any]) -> dict[str, str]:
        jar = self.cookies[urlsplit(app["url"]).netloc]
        return {"Cookie": "; ".join(f"{k}={v}" for k, v in jar.items())}
