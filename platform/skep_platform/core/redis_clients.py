"""Connections to Redis or Valkey, at an address or behind Sentinel."""

from __future__ import annotations

from typing import Any

import redis
from django.conf import settings
from redis import asyncio as aioredis
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.sentinel import Sentinel

from skep_platform.engine_urls import sentinels


def client(**options: Any) -> redis.Redis:
    """Return a client of `SKEP_REDIS_URL` with a connection pool of its own. Behind Sentinel, each
    new connection goes to who is the master then."""
    known = sentinels(settings.SKEP_REDIS_URL)
    if known is None:
        return redis.Redis.from_url(settings.SKEP_REDIS_URL, **options)
    found = Sentinel(known.hosts, sentinel_kwargs=known.sentinel_options)
    return found.master_for(known.master, **known.login, **options)


def async_client(**options: Any) -> aioredis.Redis:
    """Return the same for the event loop of the caller."""
    known = sentinels(settings.SKEP_REDIS_URL)
    if known is None:
        return aioredis.Redis.from_url(settings.SKEP_REDIS_URL, **options)
    found = AsyncSentinel(known.hosts, sentinel_kwargs=known.sentinel_options)
    return found.master_for(known.master, **known.login, **options)


class SentinelPool:
    """What Django's cache takes for a class of connection pools."""

    @classmethod
    def from_url(cls, _: str, **options: Any) -> redis.ConnectionPool:
        return client(**options).connection_pool
