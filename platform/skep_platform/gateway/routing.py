"""Routes of the WebSockets."""

from __future__ import annotations

from channels.routing import URLRouter

websockets = URLRouter([])
