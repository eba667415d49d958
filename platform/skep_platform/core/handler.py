"""Django behind ASGI, with all of its middleware called in the thread of the request.

Django's own handler runs middleware in an event loop wherever that can be. Ours cannot: each
request then opened a loop of its own inside its thread, and changed threads twice for every layer.
Views that are coroutines may still be added; Django runs them as it does behind WSGI.

The thread gives its database connection back before the answer is sent, and not, as Django has it,
after the last byte: a client that does not read would hold one as long as it likes.
"""

from __future__ import annotations

import resource
from functools import partial

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler

from skep_platform.core.threads import at_database


class Handler(ASGIHandler):
    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)
        chain = self._middleware_chain  # type: ignore[has-type]
        work = partial(at_database, chain)
        self._middleware_chain = sync_to_async(work, thread_sensitive=True)


def application() -> Handler:
    """Set Django up and serve it."""
    django.setup(set_prefix=False)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # 1024 connections are few
    return Handler()
