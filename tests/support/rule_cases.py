"""For each alert rule series on which it fires, and others on which it does not, in the notation of
promtool (`1x90`: the value 1 at 91 points; `0+5x90`: it grows by 5)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Case:
    """`labels`: those of the alert, besides its name and severity. `after_min`: when it is looked
    at, in minutes; a minute has two points."""

    fault: dict[str, str]
    healthy: dict[str, str]
    labels: dict[str, str] = field(default_factory=dict)
    after_min: int = 45


def _slow(metric: str, labels: str, fast: bool) -> dict[str, str]:
    """All observations lie in the first bucket of a histogram, or all in the last but one."""
    first = "0+10x90" if fast else "0x90"
    label = f", {labels}" if labels else ""
    return {
        f'{metric}_bucket{{le="0.5"{label}}}': first,
        f'{metric}_bucket{{le="60"{label}}}': "0+10x90",
        f'{metric}_bucket{{le="+Inf"{label}}}': "0+10x90",
    }


NODE = {"node": "gpu-07", "instance": "gpu-07:9470"}
GPU = NODE | {"gpu": "GPU-1"}
OF_GPU = 'node="gpu-07", instance="gpu-07:9470", gpu="GPU-1"'
ROUND = "skep_scheduler_last_round_timestamp_seconds"
QUOTA = 'skep_virtual_cluster_gpus{virtual_cluster="nlp", gpu_model="A100"'
WORST_RHO = 'skep_virtual_cluster_worst_rho{virtual_cluster="nlp"'
REQUESTS = "skep_http_requests_total"

CASES = {
    "SkepProcessDown": Case(
        {'up{job="skep", instance="web:9470"}': "0x90"},
        {'up{job="skep", instance="web:9470"}': "1x90", 'up{job="other"}': "0x90"},
        {"job": "skep", "instance": "web:9470"},
    ),
    # Pods that do not start are no targets, so that nothing is down.
    "SkepNoWebServer": Case(
        {'up{job="skep", instance="gateway:9470"}': "1x90"},
        {'skep_database_up{instance="a"}': "0x90"},
    ),
    # One web server that reaches it is enough.
    "SkepDatabaseAway": Case(
        {"skep_database_up": "0x90"},
        {'skep_database_up{instance="a"}': "0x90", 'skep_database_up{instance="b"}': "1x90"},
    ),
    "SkepRedisAway": Case({"skep_redis_up": "0x90"}, {"skep_redis_up": "1x90"}),
    # Of two schedulers one stands by.
    "SkepSchedulerStopped": Case(
        {ROUND: "0x90"},
        {f'{ROUND}{{instance="a"}}': "0x90", f'{ROUND}{{instance="b"}}': "0+30x90"},
    ),
    "SkepSchedulerSlow": Case(
        _slow("skep_scheduler_round_seconds", "", fast=False),
        _slow("skep_scheduler_round_seconds", "", fast=True),
    ),
    "SkepNoAgents": Case(
        {"skep_gateway_agents": "0x90", 'skep_nodes{state="ONLINE", instance="w"}': "3x90"},
        {
            'skep_gateway_agents{instance="a"}': "0x90",
            'skep_gateway_agents{instance="b"}': "3x90",
            'skep_nodes{state="ONLINE", instance="w"}': "3x90",
        },
    ),
    "SkepNodesUnreachable": Case(
        {'skep_nodes{state="LOST", instance="w"}': "2x90"},
        {'skep_nodes{state="ONLINE", instance="w"}': "2x90"},
        {"state": "LOST"},
    ),
    "SkepQuotaNotMet": Case(
        {f'{QUOTA}, kind="bad"}}': "1x90", f'{QUOTA}, kind="unavailable"}}': "8x90"},
        {f'{QUOTA}, kind="bad"}}': "0x90", f'{QUOTA}, kind="used"}}': "8x90"},
        {"virtual_cluster": "nlp", "gpu_model": "A100"},
    ),
    "SkepTasksLate": Case(
        _slow("skep_task_lag_seconds", 'queue="default"', fast=False),
        _slow("skep_task_lag_seconds", 'queue="default"', fast=True),
        {"queue": "default"},
    ),
    # After a day, once for two web servers with the same number; half a day is too short.
    "SkepUserUnfair": Case(
        {f'{WORST_RHO}, instance="a"}}': "3x3000", f'{WORST_RHO}, instance="b"}}': "3x3000"},
        {f'{WORST_RHO}, instance="a"}}': "1.5x1560 3x1440"},
        {"virtual_cluster": "nlp"},
        after_min=25 * 60,
    ),
    "SkepTasksPileUp": Case(
        {'skep_task_queue_messages{queue="default", instance="w"}': "900x90"},
        {'skep_task_queue_messages{queue="default", instance="w"}': "90x90"},
        {"queue": "default"},
    ),
    "SkepTasksFail": Case(
        {'skep_tasks_total{task="skep.jobs.reconcile", state="FAILURE"}': "0+1x90"},
        {
            'skep_tasks_total{task="skep.jobs.reconcile", state="FAILURE"}': "7x90",
            'skep_tasks_total{task="skep.jobs.reconcile", state="SUCCESS"}': "0+9x90",
        },
        {"task": "skep.jobs.reconcile"},
    ),
    "SkepRequestsFail": Case(
        {f'{REQUESTS}{{status="500"}}': "0+5x90", f'{REQUESTS}{{status="200"}}': "0+95x90"},
        {f'{REQUESTS}{{status="404"}}': "0+50x90", f'{REQUESTS}{{status="200"}}': "0+95x90"},
    ),
    "SkepRequestsSlow": Case(
        _slow("skep_http_request_seconds", "", fast=False),
        _slow("skep_http_request_seconds", "", fast=True),
    ),
    "SkepDatabasePoolFull": Case(
        {'skep_database_pool_waiting{instance="web:9470"}': "3x90"},
        {'skep_database_pool_waiting{instance="web:9470"}': "0x90"},
        {"instance": "web:9470"},
    ),
    "SkepHealth": Case(
        {'skep_alert{code="log_store_away", severity="critical", instance="w"}': "1x90"},
        {"skep_log_held_bytes": "0x90"},
        {"code": "log_store_away", "severity": "critical"},
    ),
    "SkepRuleFires": Case(
        {'skep_rule_alerts{rule="doctor", kind="doctor", instance="w"}': "1x90"},
        {'skep_alert{code="logs_waiting", severity="warning"}': "1x90"},
        {"rule": "doctor", "kind": "doctor"},
    ),
    "SkepAgentDisconnected": Case(
        {'skep_agent_connected{node="gpu-07", instance="gpu-07:9470"}': "0x90"},
        {'skep_agent_connected{node="gpu-07", instance="gpu-07:9470"}': "1x90"},
        NODE,
    ),
    "SkepGpuUnhealthy": Case(
        {f"skep_gpu_healthy{{{OF_GPU}}}": "0x90"}, {f"skep_gpu_healthy{{{OF_GPU}}}": "1x90"}, GPU
    ),
    # 31 is a page fault, which a program causes.
    "SkepGpuErrors": Case(
        {f'skep_gpu_errors_total{{{OF_GPU}, code="79"}}': "1x90"},
        {f'skep_gpu_errors_total{{{OF_GPU}, code="31"}}': "9x90"},
        GPU | {"code": "79"},
    ),
    "SkepGpuEccErrors": Case(
        {f"skep_gpu_ecc_errors_total{{{OF_GPU}}}": "2x90"},
        {f"skep_gpu_ecc_errors_total{{{OF_GPU}}}": "0x90"},
        GPU,
    ),
    "SkepGpuHot": Case(
        {f"skep_gpu_temperature_celsius{{{OF_GPU}}}": "95x90"},
        {f"skep_gpu_temperature_celsius{{{OF_GPU}}}": "85x90"},
        GPU,
    ),
}
