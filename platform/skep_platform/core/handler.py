"""Django behind ASGI, with all of its middleware called in the thread of the request.

Django's own handler runs middleware in an event loop wherever that can be. Ours cannot: each
request then opened a loop of its own inside its thread, and changed threads twice for every layer.
Views that are coroutines may still be added; Django runs them as it does behind WSGI.
"""

from __future__ import annotations

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler


class Handler(ASGIHandler):
    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)
        chain = self._middleware_chain  # type: ignore[has-type]
        self._middleware_chain = sync_to_async(chain, thread_sensitive=True)


def application() -> Handler:
    """Set Django up and serve it."""
    django.setup(set_prefix=False)
    return Handler()
