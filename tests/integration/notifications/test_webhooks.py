"""Webhooks, to a real receiver; and addresses that the platform must not reach."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import socket
import time
from datetime import timedelta
from uuid import uuid4

import pytest
import time_machine
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_user
from tests.support.receivers import http_receiver

from skep_platform.core.events import notify
from skep_platform.core.models import Event
from skep_platform.notifications import addresses, collecting, delivering, sending, webhooks
from skep_platform.notifications.models import Delivery, Notification, Webhook

pytestmark = pytest.mark.django_db

LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]


@pytest.fixture
def receiver(settings):
    settings.SKEP_WEBHOOK_NETWORKS = LOOPBACK
    with http_receiver() as found:
        yield found


def fail(user, vc, *names: str) -> None:
    for name in names:
        notify("job.failed", "job", make_job(vc, user, name=name).pk, "Failed. Out of memory.")
    collecting.collect()


def later(seconds: float):
    return time_machine.travel(timezone.now() + timedelta(seconds=seconds))


def deliver(after_s: float = 6) -> int:
    with later(after_s):
        return delivering.deliver("webhook")


def errors() -> list[str]:
    return list(Delivery.objects.order_by("id").values_list("error", flat=True))


class TestRequests:
    def test_a_request_is_signed_with_the_secret_that_was_shown_once(self, receiver, alice, vc):
        api = Api(alice)
        made = api.post("/webhooks", {"name": "ci", "url": receiver.url("/hook?team=1")}).json()
        fail(alice, vc, "train")
        assert deliver() == 1
        (request,) = receiver.requests
        assert request.path == "/hook?team=1"
        signed = request.headers["Skep-Timestamp"].encode() + b"." + request.body
        expected = hmac.new(made["secret"].encode(), signed, hashlib.sha256).hexdigest()
        assert request.headers["Skep-Signature"] == f"v1={expected}"
        body = json.loads(request.body)
        assert (body["event"], body["count"]) == ("job.failed", 1)
        assert body["items"][0]["name"] == "train"
        assert request.headers["Skep-Delivery"] == body["id"] == str(Delivery.objects.get().pk)
        listed = json.dumps(api.get("/webhooks").json())
        assert made["secret"] not in listed
        assert "team=1" not in listed
        assert made["secret"].encode() not in bytes(Webhook.objects.get().sealed)

    def test_a_new_secret_signs_from_now_on(self, receiver, alice, vc):
        hook, old = webhooks.create(alice, "ci", receiver.url())
        new = Api(alice).post(f"/webhooks/{hook.pk}/secret").json()["secret"]
        fail(alice, vc, "train")
        deliver()
        (request,) = receiver.requests
        stamp = int(request.headers["Skep-Timestamp"])
        assert request.headers["Skep-Signature"] == sending.signature(new, stamp, request.body)
        assert new != old

    def test_many_events_at_once_are_one_request_that_names_their_number(self, receiver, alice, vc):
        webhooks.create(alice, "ci", receiver.url())
        fail(alice, vc, *(f"sweep-{n}" for n in range(60)))
        deliver()
        (request,) = receiver.requests
        body = json.loads(request.body)
        assert (body["title"], body["count"], len(body["items"])) == ("60 jobs failed", 60, 50)

    def test_slack_gets_a_text_in_which_names_are_no_markup(self, receiver, alice, vc):
        webhooks.create(alice, "chat", receiver.url(), "slack")
        fail(alice, vc, "<!channel>")
        deliver()
        body = json.loads(receiver.requests[0].body)
        assert set(body) == {"text"}
        assert "Job &lt;!channel&gt; failed" in body["text"]
        assert "<!channel>" not in body["text"]


class TestFailures:
    def test_an_event_that_only_a_newer_server_knows_has_no_other_request_sent_again(
        self, receiver, alice, vc
    ):
        webhooks.create(alice, "ci", receiver.url())
        fail(alice, vc, "train")
        newer = Delivery.objects.get()
        newer.pk, newer.event = uuid4(), "job.teleported"
        newer._state.adding = True
        newer.save()
        assert deliver() == 2
        assert len(receiver.requests) == 1
        assert sorted(errors()) == ["", "It could not be sent (KeyError)."]
        deliver(delivering.CLAIM_S + 10)
        assert len(receiver.requests) == 1

    def test_a_failure_is_tried_again_with_the_same_delivery_id(self, receiver, alice, vc):
        webhooks.create(alice, "ci", receiver.url())
        receiver.status = 500
        fail(alice, vc, "train")
        deliver()
        assert errors() == ["It answered 500."]
        receiver.status = 204
        assert [deliver(20), deliver(45)] == [0, 1]
        first, second = receiver.requests
        assert first.headers["Skep-Delivery"] == second.headers["Skep-Delivery"]
        assert (Delivery.objects.get().state, Webhook.objects.get().failures) == ("sent", 0)

    def test_16_a_redirect_is_not_followed(self, receiver, alice, vc):
        webhooks.create(alice, "ci", receiver.url())
        receiver.status, receiver.headers = 302, {"Location": receiver.url("/elsewhere")}
        fail(alice, vc, "train")
        deliver()
        assert [request.path for request in receiver.requests] == ["/hook"]
        assert errors() == ["It answered 302; redirects are not followed."]

    def test_an_answer_without_an_end_is_not_read_to_it(self, receiver, alice, vc, monkeypatch):
        def drip(handler):
            handler.send_response(200)
            handler.end_headers()
            try:
                while True:
                    handler.wfile.write(b"x" * 65536)
            except OSError:
                pass  # the sender hung up

        receiver.respond = drip
        webhooks.create(alice, "ci", receiver.url())
        fail(alice, vc, "train")
        deliver()
        # Whoever reads on is cut off after TIMEOUT_S, and has an error then.
        assert (errors(), Delivery.objects.get().state) == ([""], "sent")

    def test_a_receiver_that_drips_its_answer_is_left_in_time(
        self, receiver, alice, vc, monkeypatch
    ):
        monkeypatch.setattr(sending, "TIMEOUT_S", 0.5)

        def drip(handler):
            try:
                for _ in range(100):
                    handler.wfile.write(b"HTTP/1.1 200 OK\r\n"[:1])
                    handler.wfile.flush()
                    time.sleep(0.1)
            except OSError:
                pass

        receiver.respond = drip
        webhooks.create(alice, "ci", receiver.url())
        fail(alice, vc, "train")
        deliver()
        assert errors() == ["It did not answer within 0.5 s."]

    def test_a_webhook_that_always_fails_is_disabled_and_its_owner_is_notified(
        self, receiver, alice, vc
    ):
        hook, _ = webhooks.create(alice, "ci", receiver.url())
        Webhook.objects.filter(pk=hook.pk).update(failures=delivering.MAX_FAILURES - 1)
        receiver.status = 404
        fail(alice, vc, "train")
        deliver()
        shown = Api(alice).get(f"/webhooks/{hook.pk}").json()
        assert (shown["enabled"], shown["disabled_reason"]) == (False, "It answered 404.")
        collecting.collect()
        found = Notification.objects.get(event="webhook.disabled")
        assert "Webhook ci" in found.items[0]["message"]
        assert deliver(7200) == 1  # what was left is given up without a request
        assert len(receiver.requests) == 1
        assert Delivery.objects.get(channel="webhook").state == "failed"
        Api(alice).patch(f"/webhooks/{hook.pk}", {"enabled": True})
        hook.refresh_from_db()
        assert (hook.enabled, hook.failures, hook.disabled_reason) == (True, 0, "")
        assert Event.objects.filter(kind="webhook.disabled").count() == 1


CLOSED = {
    "loopback": "127.0.0.1",
    "loopback of IPv6": "::1",
    "loopback in IPv6": "::ffff:127.0.0.1",
    "private": "10.1.2.3",
    "private (172)": "172.31.255.1",
    "private (192)": "192.168.0.1",
    "unique local": "fd00::1",
    "metadata": "169.254.169.254",
    "metadata of IPv6": "fd00:ec2::254",
    "metadata in IPv6": "::ffff:169.254.169.254",
    "metadata by NAT64": "64:ff9b::a9fe:a9fe",
    "metadata by 6to4": "2002:a9fe:a9fe::1",
    "metadata of Azure": "168.63.129.16",
    "link-local": "fe80::1",
    "carrier-grade NAT": "100.64.0.1",
    "multicast": "224.0.0.1",
    "multicast that is global": "233.252.1.1",
    "multicast of IPv6": "ff0e::1",
    "unspecified": "0.0.0.0",
    "unspecified of IPv6": "::",
    "broadcast": "255.255.255.255",
    "documentation": "192.0.2.1",
}


class TestAddresses:
    @pytest.mark.parametrize("name", CLOSED)
    def test_16_an_address_inside_is_refused_when_it_is_written(self, alice, name):
        address = CLOSED[name]
        host = f"[{address}]" if ":" in address else address
        answer = Api(alice).post("/webhooks", {"name": "x", "url": f"http://{host}/"})
        assert refusal(answer) == (400, "webhook_address_refused")

    @pytest.mark.parametrize("name", CLOSED)
    def test_16_an_address_inside_is_refused_when_a_name_leads_to_it(self, name):
        with pytest.raises(addresses.AddressRefused):
            addresses.check("hooks.example.org", ["93.184.215.14", CLOSED[name]])

    def test_public_addresses_are_allowed(self):
        addresses.check("hooks.example.org", ["93.184.215.14", "2606:2800:21f:cb07::1"])

    @pytest.mark.parametrize(
        "host", ["localhost", "2130706433", "0x7f.0.0.1", "127.1", "LOCALHOST."]
    )
    def test_16_names_and_odd_spellings_of_loopback_are_refused_at_the_request(
        self, alice, vc, host
    ):
        """They are resolved by the system's own resolver."""
        with http_receiver() as receiver:
            webhooks.create(alice, "x", receiver.url(host=host))
            fail(alice, vc, "train")
            deliver()
            assert receiver.requests == []
        (error,) = errors()
        assert "not a public address" in error or "cannot be resolved" in error
        assert "127.0.0.1" not in error

    def test_16_the_address_that_was_checked_is_the_one_that_is_connected_to(
        self, alice, vc, monkeypatch, receiver, settings
    ):
        """A name server that answers with another address the second time (DNS rebinding)."""
        settings.SKEP_WEBHOOK_NETWORKS = [ipaddress.ip_network("127.0.0.2/32")]
        asked = []

        def rebinding(host, port, *args, **kwargs):
            asked.append(host)
            address = "127.0.0.2" if len(asked) == 1 else "127.0.0.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        webhooks.create(alice, "x", f"http://rebind.example.org:{receiver.port}/")
        fail(alice, vc, "train")
        real = socket.getaddrinfo

        def resolver(host, *args, **kwargs):
            named = host == "rebind.example.org"
            return rebinding(host, *args, **kwargs) if named else real(host, *args, **kwargs)

        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        deliver()
        assert asked == ["rebind.example.org"]
        # 127.0.0.2 was checked, and nothing listens there; the receiver on 127.0.0.1 saw nothing.
        assert receiver.requests == []
        assert "ConnectError" in errors()[0]

    @pytest.mark.parametrize(
        "url",
        [
            "ftp://example.org/",
            "file:///etc/passwd",
            "https://",
            "https://user:pw@example.org/",
            "https://example.org/#x",
            "https://example.org:99999/",
            "https://exa mple.org/",
            "https://[::1",
            "https://exämple.org/",
            "https://example.org/" + "x" * 1000,
        ],
    )
    def test_what_is_no_address_of_a_webhook_is_refused(self, alice, url):
        answer = Api(alice).post("/webhooks", {"name": "x", "url": url})
        assert answer.status_code == 400
        if answer.json()["code"] != "invalid":
            assert refusal(answer) == (400, "webhook_url_invalid")
            assert answer.json()["details"]["field"] == "url"

    def test_the_name_is_what_the_receiver_is_asked_for(self, receiver, alice, vc, monkeypatch):
        real = socket.getaddrinfo

        def resolver(host, *args, **kwargs):
            return real("127.0.0.1" if host == "hooks.example.org" else host, *args, **kwargs)

        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        webhooks.create(alice, "x", f"http://hooks.example.org:{receiver.port}/a")
        fail(alice, vc, "train")
        deliver()
        assert receiver.requests[0].headers["Host"] == f"hooks.example.org:{receiver.port}"


def test_webhooks_are_limited_and_named_once(alice):
    api = Api(alice)
    url = "https://hooks.example.org/x"
    for n in range(webhooks.MAX_WEBHOOKS):
        assert api.post("/webhooks", {"name": f"h{n}", "url": url}).status_code == 201
        if n == 0:
            assert refusal(api.post("/webhooks", {"name": "h0", "url": url})) == (409, "name_taken")
    assert refusal(api.post("/webhooks", {"name": "z", "url": url})) == (409, "too_many_webhooks")


def test_webhooks_of_others_do_not_exist_for_an_admin_either(alice, admin):
    hook, _ = webhooks.create(alice, "mine", "https://hooks.example.org/x")
    assert admin.get(f"/webhooks/{hook.pk}").status_code == 404
    assert admin.get("/webhooks").json()["results"] == []
    body = {"channel": "webhook", "webhook": str(hook.pk)}
    assert refusal(admin.post("/notifications/test", body)) == (404, "webhook_not_found")
    assert make_user("bob").webhooks.count() == 0
