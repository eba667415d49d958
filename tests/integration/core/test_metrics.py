"""What the server measures for Prometheus, and who may read it."""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from tests.support.gateway_rows import running_attempt
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_node, make_user, make_vc
from tests.support.stack import eventually

from skep_platform import env_settings
from skep_platform.accounts.models import User
from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.core import metrics
from skep_platform.jobs.models import Job
from skep_platform.operations import rules
from skep_platform.operations.models import AlertRule
from skep_platform.scheduling.tick import Scheduler, run_once
from skep_platform.telemetry import calibration
from skep_platform.telemetry.models import GpuRollup
from skep_platform.tenancy.models import VirtualCluster
from skep_platform.web.metrics import ClusterMetrics, ParallelReader, Source, read_cluster

pytestmark = pytest.mark.django_db


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def text_of(collector: Any) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def test_32_requests_are_counted_by_route_and_never_by_address(admin):
    route = "api/v1/users/<str:username>"
    labels = {"method": "GET", "route": route, "status": "404"}
    before = value("skep_http_requests_total", **labels)
    for name in ("nobody", "noone"):
        assert admin.get(f"/users/{name}").status_code == 404
    assert value("skep_http_requests_total", **labels) == before + 2
    assert value("skep_http_request_seconds_count", method="GET", route=route) >= 2
    Api().get("/there/is/no/such/secret-path")
    assert b"secret-path" not in generate_latest()
    assert b"nobody" not in generate_latest()


def test_32_methods_that_a_client_makes_up_are_one(admin):
    admin.client.generic("BREW", "/api/v1/users")
    assert b"BREW" not in generate_latest()


def test_19_only_who_has_the_token_reads_metrics():
    def answer(environ: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [])
        return [b"numbers"]

    def ask(token: str, header: str | None) -> str:
        said: list[str] = []
        environ = {} if header is None else {"HTTP_AUTHORIZATION": header}
        list(metrics.guarded(answer, token)(environ, lambda status, _: said.append(status)))
        return said[0][:3]

    assert ask("", None) == "200"
    assert ask("a" * 20, f"Bearer {'a' * 20}") == "200"
    for wrong in (None, "", "Bearer", f"Bearer {'a' * 19}", "a" * 20, "Bearer é"):
        assert ask("a" * 20, wrong) == "401"


@pytest.mark.parametrize(
    ("listen", "token", "refused"),
    [
        ("", "", False),
        ("127.0.0.1:9470", "", False),
        ("[::1]:9470", "", False),
        ("0.0.0.0:9470", "", True),
        ("0.0.0.0:9470", "short", True),
        ("0.0.0.0:9470", "a-long-random-token", False),
        ("9470", "", True),
        ("127.0.0.1:", "", True),
        ("127.0.0.1:99999", "", True),
    ],
)
def test_no_process_starts_that_shows_its_numbers_to_everyone(listen, token, refused):
    assert bool(env_settings.metrics_problem(listen, token)) is refused


def test_the_cluster_in_numbers_costs_the_same_however_large_it_is(admin):
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as found:
            text_of(ClusterMetrics(read_cluster))
        return len(found)

    vc, ann = make_vc("vision"), make_user("ann")
    make_node("gpu-1", gpus=1)
    make_job(vc, ann)
    few = queries()
    calibration.count_starts({timezone.now().date(): (4, 3)})
    for n in range(5):
        make_node(f"more-{n}", gpus=1)
        make_job(make_vc(f"team-{n}"), ann)
    assert queries() == few
    later = timezone.now() + timedelta(hours=1)
    Node.objects.filter(name="gpu-1").update(state=NodeState.UNREACHABLE, lease_expires_at=later)
    text = text_of(ClusterMetrics(read_cluster))
    assert 'skep_jobs{state="WAITING",virtual_cluster="vision"} 1.0' in text
    assert re.search(r'skep_gpus\{gpu_model="[^"]+",kind="total"\} 6\.0', text)
    assert 'skep_nodes{state="ONLINE"} 5.0' in text
    assert "skep_database_up 1.0" in text
    assert 'skep_expected_starts{outcome="kept"} 3.0' in text
    assert 'skep_expected_starts{outcome="broken"} 1.0' in text
    assert 'skep_task_queue_messages{queue="scheduler"}' in text
    # What the page Health names is an alert here as well.
    assert 'skep_alert{code="nodes_awaited",severity="warning"} 1.0' in text


def test_alerts_of_rules_that_fire_are_counted_and_others_are_not():
    AlertRule.objects.all().delete()
    for name, minutes in (("now", 0), ("later", 60)):
        rules.create(name=name, kind="bad_node", for_minutes=minutes)
    node = make_node("sick", gpus=2)
    Device.objects.filter(node=node).update(health="BAD")
    rules.evaluate()
    text = text_of(ClusterMetrics(read_cluster))
    assert [line for line in text.splitlines() if line.startswith("skep_rule_alerts")] == [
        'skep_rule_alerts{kind="bad_node",rule="now"} 1.0'
    ]


def test_a_scrape_soon_after_another_asks_nothing(django_assert_num_queries):
    collector = ClusterMetrics(read_cluster)
    first = text_of(collector)
    with django_assert_num_queries(0):
        assert text_of(collector) == first


def test_a_source_that_hangs_keeps_the_others_from_no_scrape():
    """A database that hangs, instead of refusing: the alert about it has to fire."""
    over, begun = threading.Event(), []

    def hangs() -> list[Metric]:
        begun.append(1)
        assert over.wait(60)
        return [GaugeMetricFamily("database_up", "", value=1)]

    def answers() -> list[Metric]:
        return [GaugeMetricFamily("redis_up", "", value=1)]

    away = GaugeMetricFamily("database_up", "", value=0)
    read = ParallelReader((Source(hangs, (away,)), Source(answers)), patience_s=2.0)

    def names() -> dict[str, float]:
        return {metric.name: metric.samples[0].value for metric in read()}

    assert names() == names() == {"database_up": 0, "redis_up": 1}
    assert len(begun) == 1, "a scrape must not add threads that hang"
    over.set()
    eventually(lambda: names()["database_up"] == 1, 60)


def test_a_round_of_the_scheduler_shows_why_gangs_wait():
    scheduler = Scheduler()
    assert text_of(scheduler.metrics) == ""
    make_job(make_vc("vision"), make_user("ann"), gpus=4)
    scheduler.metrics.begins()
    run_once(scheduler)
    text = text_of(scheduler.metrics)
    assert "skep_scheduler_queue_gangs 1.0" in text
    assert re.search(r'skep_scheduler_waiting_gangs\{reason="\w+"\} 1\.0', text)
    assert "skep_scheduler_plan_seconds_count" in text


def test_tasks_are_timed_with_the_time_that_they_waited():
    from celery.signals import before_task_publish

    from skep_platform.scheduling.tasks import tidy

    name = tidy.name
    before = value("skep_tasks_total", task=name, state="SUCCESS")
    tidy.apply()
    assert value("skep_tasks_total", task=name, state="SUCCESS") == before + 1
    headers: dict[str, Any] = {}
    before_task_publish.send(sender=name, headers=headers)
    assert headers["skep_sent_at"] > 1e9


class TestOfATeam:
    """A virtual cluster and its jobs, for a Prometheus of the team."""

    @pytest.fixture
    def running(self):
        owner, mate, stranger = make_user("ann"), make_user("bob"), make_user("zoe")
        vc = make_vc("vision", members=[owner, mate], vc_admins=[make_user("boss")])
        attempt = running_attempt(gpus=2)
        Job.objects.filter(pk=attempt.job_id).update(vc=vc, owner=owner, name="vit")
        now = timezone.now()
        for minutes, share in ((1, 80.0), (2, 10.0)):
            at = now - timedelta(minutes=minutes)
            for uuid in attempt.gpu_uuids:
                GpuRollup.objects.create(
                    device_id=uuid,
                    attempt=attempt,
                    at=at,
                    seconds=60,
                    samples=12,
                    utilization_sum=12 * share,
                    utilization_max=share,
                    memory_used_mb_max=1024,
                )
        assert stranger
        return attempt

    def read(self, username: str) -> tuple[int, str]:
        answer = Api(User.objects.get(username=username)).get("/virtual-clusters/vision/metrics")
        return answer.status_code, answer.content.decode()

    def test_a_running_job_has_the_numbers_of_its_newest_minute(self, running):
        status, text = self.read("ann")
        assert status == 200
        job = f'{{job_id="{running.job_id}",name="vit",owner="ann",virtual_cluster="vision"}}'
        assert f"skep_job_gpu_utilization_percent{job} 80.0" in text
        assert f"skep_job_gpu_memory_used_bytes{job} {2 * 2**30:.9e}" in text
        assert f"skep_job_gpus{job} 2.0" in text

    def test_jobs_that_one_may_not_see_have_none(self, running):
        assert "vit" in self.read("boss")[1]
        status, text = self.read("bob")  # a member, who sees no jobs of others here
        assert (status, "vit" in text, str(running.job_id) in text) == (200, False, False)
        assert self.read("zoe")[0] == 404

    def test_it_costs_the_same_with_many_jobs(self, running):
        def queries() -> int:
            with CaptureQueriesContext(connection) as found:
                self.read("boss")
            return len(found)

        few = queries()
        vc = VirtualCluster.objects.get(name="vision")
        for _ in range(4):
            make_job(vc, User.objects.get(username="ann"), state="RUNNING")
        assert queries() == few
