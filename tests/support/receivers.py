"""A mail server and an HTTP receiver on loopback, real ones, for tests of what is sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from tests.support.ports import free_port


@dataclass
class Mailbox:
    """`answer`: what the server says to a recipient, as "550 no such user"; "" takes it. `refuses`:
    the one recipient whom it says so to; "": all. `newest`: a file that gets the text of each
    e-mail, for a process that waits for one."""

    port: int = 0
    answer: str = ""
    refuses: str = ""
    mails: list[Message] = field(default_factory=list)
    connections: int = 0
    newest: Path | None = None

    async def handle_EHLO(
        self, server: Any, session: Any, envelope: Any, hostname: str, responses: list[str]
    ) -> list[str]:
        self.connections += 1
        session.host_name = hostname
        return responses

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if self.answer and self.refuses in ("", address):
            return self.answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(message_from_bytes(envelope.content))
        if self.newest is not None:
            self.newest.write_text(self.text())
        return "250 OK"

    def text(self, number: int = -1) -> str:
        payload = self.mails[number].get_payload(decode=True)
        assert isinstance(payload, bytes)
        return payload.decode().replace("\r\n", "\n")


@contextmanager
def mail_server(newest: Path | None = None) -> Iterator[Mailbox]:
    box = Mailbox(newest=newest)
    box.port = free_port()
    controller = Controller(box, hostname="127.0.0.1", port=box.port)
    controller.start()
    try:
        yield box
    finally:
        controller.stop()


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """`respond` may answer in its own way; else it is `status`."""

    port: int = 0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    respond: Callable[[BaseHTTPRequestHandler], None] | None = None
    requests: list[Request] = field(default_factory=list)

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@contextmanager
def http_receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            receiver.requests.append(Request(self.path, dict(self.headers), body))
            if receiver.respond is not None:
                receiver.respond(self)
                return
            self.send_response(receiver.status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
