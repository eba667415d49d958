"""Which headers pass between a browser and an app, and which requests a page of another origin may
cause. Pure functions of headers as ASGI has them: pairs of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Headers = Sequence[tuple[bytes, bytes]]

# RFC 9110, section 7.6.1, and what belongs to one connection by custom.
HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate"),
        *(b"proxy-authorization", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
# Set anew, or never let through: an app gets no credential of the platform, and believes what these
# say of the client.
FROM_BROWSER = HOP | {
    *(b"host", b"cookie", b"authorization", b"forwarded", b"x-real-ip", b"expect"),
    *(b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-extensions"),
    *(b"sec-websocket-protocol",),
}
PREFIXES_FROM_BROWSER = (b"x-forwarded-", b"x-skep-", b"skep-")
# "Clear-Site-Data" ends logins of the whole registrable domain, the others speak for other hosts or
# send the browser past the proxy.
FROM_APP = HOP | {
    *(b"set-cookie", b"clear-site-data", b"strict-transport-security", b"alt-svc"),
    *(b"public-key-pins", b"nel", b"report-to", b"server", b"date"),
}
MAX_BYTES = 64 * 1024
SAFE = ("GET", "HEAD")


def get(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """Return a header's value; "" where it is missing or given more than once."""
    found = [value for key, value in headers if key.lower() == name]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def cookies(headers: Headers) -> list[tuple[str, str]]:
    """Return the cookies of a request as they were sent: names may come twice."""
    lines = [value.decode("latin-1") for key, value in headers if key.lower() == b"cookie"]
    pairs = [part.partition("=") for line in lines for part in line.split(";")]
    return [(name.strip(), value.strip()) for name, _, value in pairs if name.strip()]


def to_app(
    headers: Headers, *, host: str, scheme: str, address: str, user: str, own: Iterable[str]
) -> list[tuple[bytes, bytes]]:
    """Return the headers with which a request goes on to an app. `own`: names of cookies that are
    the proxy's."""
    ours = set(own)
    named = _named_by_connection(headers)
    kept = [
        (key, value)
        for key, value in headers
        if (name := key.lower()) not in FROM_BROWSER
        and name not in named
        and not name.startswith(PREFIXES_FROM_BROWSER)
    ]
    left = [f"{name}={value}" for name, value in cookies(headers) if name not in ours]
    if left:
        kept.append((b"cookie", "; ".join(left).encode("latin-1")))
    return [
        (b"host", host.encode("latin-1")),
        *kept,
        (b"x-forwarded-for", address.encode("latin-1")),
        (b"x-forwarded-proto", scheme.encode()),
        (b"x-forwarded-host", host.encode("latin-1")),
        (b"x-skep-user", user.encode("ascii", "replace")),
    ]


def to_browser(headers: Headers, own: Iterable[str]) -> list[tuple[bytes, bytes]]:
    """Return the headers with which an app's answer goes on to the browser."""
    ours = set(own)
    named = _named_by_connection(headers)
    kept = [
        (key.lower(), value)
        for key, value in headers
        if key.lower() not in FROM_APP and key.lower() not in named
    ]
    for key, value in headers:
        if key.lower() == b"set-cookie" and (cookie := host_only(value, ours)):
            kept.append((b"set-cookie", cookie))
    if not any(key == b"referrer-policy" for key, _ in kept):
        kept.append((b"referrer-policy", b"same-origin"))
    # Beside an app's own policy: a browser keeps to both.
    kept.append((b"content-security-policy", b"frame-ancestors 'self'"))
    return kept


def host_only(cookie: bytes, ours: set[str]) -> bytes:
    """Return the value of a Set-Cookie header without Domain, so that the cookie stays with the
    app's own host; b"" for a cookie of the proxy."""
    first, *attributes = cookie.split(b";")
    if first.partition(b"=")[0].strip().decode("latin-1") in ours:
        return b""
    kept = [a for a in attributes if a.partition(b"=")[0].strip().lower() != b"domain"]
    return b";".join([first, *kept])


def _named_by_connection(headers: Headers) -> frozenset[bytes]:
    values = [value for key, value in headers if key.lower() == b"connection"]
    return frozenset(name.strip().lower() for value in values for name in value.split(b","))


def from_own_page(method: str, headers: Headers, origin: str) -> bool:
    """Return whether a page of the app's own origin, or the user, caused a request. Apps are of one
    site to a browser, which therefore sends the cookie of one app with what a page of another one
    asks for. Only the address itself may be opened from elsewhere: by a link."""
    given = [value for key, value in headers if key.lower() == b"origin"]
    if given and [value.decode("latin-1").lower() for value in given] != [origin]:
        return False
    if get(headers, b"sec-fetch-site") not in ("cross-site", "same-site"):
        return True
    return method in SAFE and is_navigation(method, headers)


def is_navigation(method: str, headers: Headers) -> bool:
    """Return whether a browser opens a page, not a part of one."""
    if method not in SAFE:
        return False
    mode, destination = get(headers, b"sec-fetch-mode"), get(headers, b"sec-fetch-dest")
    if mode:
        return mode == "navigate" and destination in ("document", "")
    return "text/html" in get(headers, b"accept")


def is_use(method: str, headers: Headers) -> bool:
    """Return whether a request shows that a user works with the app. What pages ask for again and
    again while no one looks, by GET, does not."""
    mode = get(headers, b"sec-fetch-mode")
    return method not in SAFE or not mode or mode == "navigate"


def size(headers: Headers) -> int:
    return sum(len(key) + len(value) + 4 for key, value in headers)
