"""Connections to Redis or Valkey, at an address or behind Sentinel."""

from __future__ import annotations

from typing import Any

import redis
from django.conf import settings
from redis import asyncio as aioredis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from skep_platform.engine_urls import sentinels


def client(sentinel_s: float = 1.0, **options: Any) -> redis.Redis:
    """Return a client of `SKEP_REDIS_URL` with a connection pool of its own. Behind Sentinel, each
    new connection goes to who is the master then; each sentinel is asked once, for `sentinel_s`."""
    known = sentinels(settings.SKEP_REDIS_URL)
    if known is None:
        return redis.Redis.from_url(settings.SKEP_REDIS_URL, **options)
    limits = {"socket_timeout": sentinel_s, "socket_connect_timeout": sentinel_s}
    once = {"retry": Retry(NoBackoff(), 0)}  # there are others; ten times by default
    found = Sentinel(known.hosts, sentinel_kwargs=known.sentinel_options | limits | once)
    return found.master_for(known.master, **known.login, **options)


def async_client(**options: Any) -> aioredis.Redis:
    """Return the same for the event loop of the caller."""
    known = sentinels(settings.SKEP_REDIS_URL)
    if known is None:
        return aioredis.Redis.from_url(settings.SKEP_REDIS_URL, **options)
    once = {"retry": AsyncRetry(NoBackoff(), 0)}
    found = AsyncSentinel(known.hosts, sentinel_kwargs=known.sentinel_options | once)
    return found.master_for(known.master, **known.login, **options)


class SentinelPool:
    """What Django's cache takes for a class of connection pools."""

    @classmethod
    def from_url(cls, _: str, **options: Any) -> redis.ConnectionPool:
        return client(**options).connection_pool
