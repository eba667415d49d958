"""The binary frames of a stream, as `skep_agent.protocol.Channel` describes them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from skep_agent.protocol import Channel
from skep_platform.gateway.socket import Refusal

CLOSE_MALFORMED = 4400
PIECE = 64 * 1024  # bytes of payload that travel as one frame
MAX_FRAME = 1024 * 1024
MAX_CONTROL = 4096
OF_CLIENT = frozenset({Channel.INPUT, Channel.CONTROL})
OF_AGENT = frozenset({Channel.OUTPUT, Channel.ERROR, Channel.CONTROL})


def pieces(frame: str | bytes, allowed: frozenset[Channel]) -> Iterator[bytes]:
    """The same bytes in frames of a size that others can get between. Raises Refusal."""
    if not isinstance(frame, bytes) or not frame or frame[0] not in allowed:
        raise _malformed("Binary frames, please, whose first byte is a channel that you may use.")
    most = MAX_CONTROL if frame[0] == Channel.CONTROL else MAX_FRAME
    if len(frame) > most:
        raise _malformed(f"A frame of this channel has at most {most} bytes.")
    for start in range(1, max(len(frame), 2), PIECE):
        yield frame[:1] + frame[start : start + PIECE]


def error(code: str, message: str) -> bytes:
    return _control({"error": {"code": code, "message": message}})


def is_last(frame: bytes) -> bool:
    """Whether it tells the client how the stream ended."""
    if frame[:1] != bytes([Channel.CONTROL]):
        return False
    try:
        message = json.loads(frame[1:])
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and bool({"exit", "error"} & message.keys())


def _control(message: object) -> bytes:
    return bytes([Channel.CONTROL]) + json.dumps(message).encode()


def _malformed(message: str) -> Refusal:
    return Refusal("frame_invalid", message, CLOSE_MALFORMED)
