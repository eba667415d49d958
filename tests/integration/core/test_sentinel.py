"""Redis behind Sentinel, where every client finds the new primary after the old one was killed; and
Redis with TLS."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from ssl import CERT_NONE, CERT_REQUIRED

import pytest
import redis
from celery import Celery
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.core.cache.backends.redis import RedisCache
from kombu import Connection
from kombu.exceptions import OperationalError
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.support.gateway_server import wait_until
from tests.support.sentinel import sentinel_group, sentinel_with_tls

from skep_platform import engine_urls
from skep_platform.core import redis_clients

URL = "sentinel://me:a%2Fb@one:1,[::1]:2,three/4?master=skep&sentinel_password=s"


def test_a_url_names_the_sentinels_the_master_and_the_logins():
    known = engine_urls.sentinels(URL)
    assert known.hosts == (("one", 1), ("::1", 2), ("three", 26379))
    assert known.login == {"username": "me", "password": "a/b", "db": 4}
    assert known.sentinel_options["password"] == "s"
    assert engine_urls.broker_url(URL).split(";")[1] == "sentinel://me:a%2Fb@[::1]:2/4"
    assert engine_urls.broker_options(URL)["master_name"] == "skep"
    assert engine_urls.redis_hosts(URL) == {"one", "::1", "three"}


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", {"ssl_cert_reqs": CERT_REQUIRED}),
        ("?ssl_ca_certs=/ca.pem", {"ssl_cert_reqs": CERT_REQUIRED, "ssl_ca_certs": "/ca.pem"}),
        ("?ssl_cert_reqs=none", {"ssl_cert_reqs": CERT_NONE}),
    ],
)
def test_celery_looks_at_the_certificate_of_redis_as_all_other_clients_do(query, wanted):
    url = engine_urls.broker_url(f"rediss://:secret@redis:6380/0{query}")
    assert Connection(url).ssl == wanted


@pytest.mark.parametrize(
    "url", ["sentinel://h:1/0", "sentinel:///0?master=m", URL.replace("/4", "/x")]
)
def test_a_url_without_what_is_needed_is_refused(url):
    with pytest.raises(ValueError, match="SKEP_REDIS_URL is to be"):
        engine_urls.sentinels(url)


def test_sentinels_that_do_not_answer_are_asked_once_each(settings):
    """A probe of readiness has seconds for all of them."""
    with ExitStack() as stack:
        listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        hosts = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in listening)
        settings.SKEP_REDIS_URL = f"sentinel://{hosts}/0?master=skep"
        client = redis_clients.client(0.1, retry=Retry(NoBackoff(), 0))
        with pytest.raises(redis.ConnectionError):
            client.ping()
        for one in listening:
            one.setblocking(False)
            one.accept()[0].close()
            with pytest.raises(BlockingIOError):
                one.accept()


def test_every_client_goes_on_at_the_new_primary(settings):
    with sentinel_group() as group:
        settings.SKEP_REDIS_URL = group.url
        client = redis_clients.client(socket_timeout=2, socket_connect_timeout=2)
        given = engine_urls.cache(group.url)
        cache = RedisCache(given["LOCATION"], {"OPTIONS": given["OPTIONS"]})
        broker = Celery(broker=engine_urls.broker_url(group.url), set_as_current=False)
        broker.conf.broker_transport_options = engine_urls.broker_options(group.url)

        async def push() -> int:
            other = redis_clients.async_client(socket_timeout=2, socket_connect_timeout=2)
            async with other:
                return await other.rpush("list", "value")

        def work(value: str) -> bool:
            try:
                cache.set("key", value)
                asyncio.run(push())
                broker.send_task("of.nobody", args=[value], queue="test", retry=False)
                return client.get(b":1:key") is not None and cache.get("key") == value
            except (redis.RedisError, OperationalError):
                return False

        wait_until(lambda: work("before"), "all of them are at the primary")
        group.kill_primary()
        wait_until(lambda: work("after"), "all of them are at the new primary")
        assert client.llen("skep:test") >= 1


@pytest.mark.parametrize("trusted", [True, False])
def test_every_client_looks_at_the_certificates_of_sentinels_and_redis(settings, trusted):
    with sentinel_with_tls() as url:
        if not trusted:
            url = url.partition("&ssl_ca_certs")[0]
        settings.SKEP_REDIS_URL = url
        client = redis_clients.client(socket_timeout=60)
        given = engine_urls.cache(url)
        cache = RedisCache(
            given["LOCATION"], {"OPTIONS": given["OPTIONS"] | {"socket_timeout": 60}}
        )
        broker = Celery(broker=engine_urls.broker_url(url), set_as_current=False)
        broker.conf.broker_use_ssl = engine_urls.broker_tls(url)
        broker.conf.broker_transport_options = engine_urls.broker_options(url)
        layer = RedisPubSubChannelLayer(hosts=[engine_urls.channel_host(url)])

        async def push() -> None:
            async with redis_clients.async_client(socket_timeout=60) as other:
                await other.rpush("list", "value")

        async def publish() -> None:
            channel = await layer.new_channel()
            await layer.send(channel, {"type": "greeting"})
            assert await layer.receive(channel) == {"type": "greeting"}
            await layer.flush()

        uses = {
            "client": client.ping,
            "cache": lambda: cache.set("key", "value"),
            "event loop": lambda: asyncio.run(push()),
            "broker": lambda: broker.send_task("of.nobody", queue="test", retry=False),
            "channels": lambda: asyncio.run(publish()),
        }
        assert {name: succeeds(use) for name, use in uses.items()} == dict.fromkeys(uses, trusted)


def succeeds(use: Callable[[], object]) -> bool:
    try:
        use()
    except (redis.RedisError, OperationalError, OSError):
        return False
    return True
