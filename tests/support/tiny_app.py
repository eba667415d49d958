"""A program for tests of the proxy: HTTP and WebSocket in one file without packages. It runs in a
container, so it imports nothing of ours.

GET /headers answers with the headers that reached it; POST /echo with the body; GET /cookie sets
cookies; GET /stream?n=BYTES streams so many; WebSocket at any path echoes frames.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urlsplit(self.path)
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self._socket()
        elif url.path == "/headers":
            self._answer(json.dumps(self.headers.items()).encode())
        elif url.path == "/cookie":
            cookies = ["mine=1; Domain=localhost; Path=/", "skep_app=stolen", "skep_session=x"]
            self._answer(b"set", *(("Set-Cookie", c) for c in cookies), ("Clear-Site-Data", '"*"'))
        elif url.path == "/stream":
            self._stream(int(parse_qs(url.query)["n"][0]))
        else:
            page = b"<!doctype html><title>tiny</title><h1>A tiny app</h1>"
            self._answer(page, ("Content-Type", "text/html"))

    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(body)

    def _answer(self, body, *headers):
        self.send_response(200)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, size):
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        piece = bytes(range(256)) * 256
        while size > 0:
            self.wfile.write(piece[:size])
            size -= len(piece)

    def _socket(self):
        key = self.headers["Sec-WebSocket-Key"] + GUID
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        self.close_connection = True
        while True:
            first = self.rfile.read(2)
            if len(first) < 2:
                return
            size = first[1] & 127
            if size == 126:
                size = struct.unpack(">H", self.rfile.read(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.rfile.read(8))[0]
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))
            head = (
                struct.pack(">BB", first[0], size)
                if size < 126
                else (
                    struct.pack(">BBH", first[0], 126, size)
                    if size < 65536
                    else struct.pack(">BBQ", first[0], 127, size)
                )
            )
            self.wfile.write(head + data)
            if first[0] & 15 == 8:
                return

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
