"""A platform of some years' work, made by SQL: users, virtual clusters, nodes, jobs, usage, audit.

Rows are made in the database by `generate_series`; a column that is not named gets the default of
its model, so that a new column needs no change here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, models
from django.db.models import Model

from skep_platform.accounts.models import User
from skep_platform.audit.models import AuditEntry
from skep_platform.cluster.models import Device, Node
from skep_platform.core.bulk import fetch
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job, Lease, Task, TaskAttempt, TaskRole
from skep_platform.telemetry.models import GpuRollup, TaskRollup
from skep_platform.tenancy.models import Membership, RoleGrant, VirtualCluster
from skep_platform.usage.models import UsageDay

DAYS = 365  # over which the jobs were submitted


@dataclass(frozen=True, slots=True)
class Size:
    jobs: int = 1_000_000
    users: int = 5_000
    vcs: int = 200
    nodes: int = 10_000
    gpus: int = 8  # per node
    tasks: int = 2_000  # of the largest job
    audit: int = 1_000_000
    samples: int = 0  # minutes of GPUs, and as many of tasks

    @property
    def active(self) -> int:
        """Return how many jobs wait or run: the newest ones do."""
        return min(4_000, self.jobs // 10)


# bench_at(n, of): the time of the n-th of so many. bench_id(kind, n, of): an id of that time.
FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION bench_at(n bigint, total bigint) RETURNS timestamptz
LANGUAGE sql STABLE AS
$$ SELECT date_trunc('hour', now()) - interval '{DAYS} days' * ((total - n)::float8 / total) $$;
CREATE OR REPLACE FUNCTION bench_id(kind text, n bigint, total bigint) RETURNS uuid
LANGUAGE sql STABLE AS
$$ SELECT (lpad(to_hex(floor(extract(epoch FROM bench_at(n, total)) * 1000)::bigint), 12, '0')
           || '7' || kind || lpad(to_hex(n), 16, '0'))::uuid $$;
CREATE OR REPLACE FUNCTION bench_fixed(kind text, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
$$ SELECT ('019000000000' || '7' || kind || lpad(to_hex(n), 16, '0'))::uuid $$;
SET session_replication_role = replica;
"""
WORDS = "ARRAY['train','eval','bert','resnet','llama','sweep','debug','finetune']"
ENDED = "(ARRAY['SUCCEEDED','SUCCEEDED','SUCCEEDED','FAILED','STOPPED'])[1 + n % 5]"
SPEC = '{"protocolVersion": 2, "extras": {"skep": {}}}'

# What triggers would have written.
USAGE_SUMS = (
    "SELECT usage_sum_day(day) FROM (SELECT DISTINCT day FROM usage_usageday) days",
    "SELECT usage_sum_month(month) FROM (SELECT DISTINCT date_trunc('month', day)::date AS month"
    " FROM usage_usageday) months",
    "SELECT usage_sum_jobs(array_agg(DISTINCT job_id)) FROM usage_usageday GROUP BY day",
)


COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0"


def fill(size: Size) -> None:
    """Fill an empty database. Triggers and foreign keys are not looked at."""
    active = size.active
    done = f"n <= {size.jobs - active}"
    job_at, job_id = f"bench_at(n, {size.jobs})", f"bench_id('001', n, {size.jobs})"
    user, vc = f"n % {size.users} + 1", f"bench_fixed('002', n % {size.users} % {size.vcs})"
    with connection.cursor() as cursor:
        cursor.execute(FUNCTIONS)
        cursor.execute(
            "SELECT audit_add_month(now() - make_interval(days => 30 * n)) "
            "FROM generate_series(0, 13) n"
        )
    many = (Job, TaskRole, Task, TaskAttempt, Event, UsageDay)
    indexes = _without_indexes(many)
    rows(User, size.users, username="'user-' || n", email="'user-' || n || '@example.org'")
    rows(VirtualCluster, size.vcs, id="bench_fixed('002', n - 1)", name="'vc-' || (n - 1)")
    # User n is of virtual cluster (n - 1) modulo their number, as its jobs are.
    own_vc = f"bench_fixed('002', (n - 1) % {size.vcs})"
    for model in (Membership, RoleGrant):
        rows(model, size.users, vc_id=own_vc, user_id="n", role="'member'")
    rows(
        Node,
        size.nodes,
        id="bench_fixed('003', n)",
        name="'node-' || lpad(n::text, 5, '0')",
        state="'ONLINE'",
        cpu_millis="128000",
        memory_mb="1048576",
        labels="""jsonb_build_object('rack', 'r' || n / 16)""",
    )
    gpus = size.nodes * size.gpus
    node = f"bench_fixed('003', (n - 1) / {size.gpus} + 1)"
    rows(
        Device,
        gpus,
        uuid="'GPU-' || n",
        node_id=node,
        model="CASE WHEN n % 3 = 0 THEN 'H100' ELSE 'A100' END",
        memory_mb="81920",
        index=f"(n - 1) % {size.gpus}",
    )
    rows(
        Job,
        size.jobs,
        id=job_id,
        name=f"({WORDS})[1 + n % 8] || '-' || ({WORDS})[1 + n / 8 % 8] || '-' || n"
        f" || CASE WHEN n % {size.jobs // 3} = 7 THEN '-needle' ELSE '' END",
        owner_id=user,
        vc_id=vc,
        state=f"CASE WHEN {done} THEN {ENDED} WHEN n % 2 = 0 THEN 'WAITING' ELSE 'RUNNING' END",
        created_at=job_at,
        updated_at=job_at,
        spec_text="repeat('command: python train.py --epochs 90' || chr(10), 10)",
        spec=f"'{SPEC}'::jsonb",
        tags="CASE WHEN n % 4 = 0 THEN ARRAY[('{a,b,c}'::text[])[1 + n / 4 % 3]]"
        f" WHEN n % {size.jobs // 5} = 9 THEN ARRAY['rare'] ELSE ARRAY[]::text[] END",
        gpus="1 + n % 8",
        tasks_total="1",
        attempt=f"CASE WHEN {done} OR n % 2 = 1 THEN 1 ELSE 0 END",
        placed_at=f"CASE WHEN {done} OR n % 2 = 1 THEN {job_at} + interval '1 min' END",
        started_at=f"CASE WHEN {done} OR n % 2 = 1 THEN {job_at} + interval '2 min' END",
        finished_at=f"CASE WHEN {done} THEN {job_at} + interval '3 hours' END",
        exit_reason=f"""CASE WHEN {done} THEN
            '{{"code": "done", "message": "All tasks ended.", "details": {{}}}}'::jsonb END""",
        logs_deleted_at=f"CASE WHEN {done} THEN {job_at} + interval '30 days' END",
        use_counted="true",
    )
    rows(
        TaskRole,
        size.jobs,
        id="n",
        job_id=job_id,
        name="'worker'",
        position="0",
        instances="1",
        gpus="1 + n % 8",
        cpu_millis="4000",
        memory_mb="16384",
        image="'registry.example.org/team/train:1'",
        command="'python train.py'",
        min_succeeded="1",
    )
    rows(Task, size.jobs, id="n", job_id=job_id, role_id="n", index="0", rank="0")
    placed = f"({done} OR n % 2 = 1)"
    rows(
        TaskAttempt,
        size.jobs,
        where=placed,
        id=f"bench_id('004', n, {size.jobs})",
        job_id=job_id,
        task_id="n",
        role_id="n",
        node_id=f"bench_fixed('003', n % {size.nodes} + 1)",
        index="1",
        epoch="1",
        state=f"CASE WHEN {done} THEN {ENDED} ELSE 'RUNNING' END",
        gpu_uuids=f"jsonb_build_array('GPU-' || (n % {gpus} + 1))",
        gpu_model="'A100'",
        network="'isolated'",
        created_at=f"{job_at} + interval '1 min'",
        updated_at=job_at,
        started_at=f"{job_at} + interval '2 min'",
        finished_at=f"CASE WHEN {done} THEN {job_at} + interval '3 hours' END",
        released_at=f"CASE WHEN {done} THEN {job_at} + interval '3 hours' END",
    )
    rows(
        Lease,
        size.jobs,
        where=f"n > {size.jobs - active} AND n % 2 = 1",
        device_id=f"'GPU-' || (n % {gpus} + 1)",
        attempt_id=f"bench_id('004', n, {size.jobs})",
        acquired_at=job_at,
    )
    rows(
        Event,
        size.jobs,
        subject_type="'job'",
        subject_id=f"{job_id}::text",
        kind="'job.queued'",
        message="'Submitted.'",
        at=job_at,
    )
    # One job in four goes over midnight.
    for later, where in ((0, "true"), (1, "n % 4 = 1")):
        rows(
            UsageDay,
            size.jobs,
            where=where,
            id=f"n + {later * size.jobs}",
            day=f"({job_at} AT TIME ZONE 'UTC')::date + {later}",
            job_id=job_id,
            user_id=user,
            vc_id=vc,
            gpu_model="CASE WHEN n % 3 = 0 THEN 'H100' ELSE 'A100' END",
            guaranteed="n % 5 <> 0",
            allocated_us="(1 + n % 8) * 10000000000",
            used_us="(1 + n % 7) * 1000000000",
            known_us="(1 + n % 8) * 9000000000",
        )
    _large_job(size)
    _samples(size)
    audited = f"bench_at(n, {size.audit})"
    rows(
        AuditEntry,
        size.audit,
        id=f"bench_id('005', n, {size.audit})",
        at=audited,
        action="(ARRAY['job.submit','job.submit','job.stop','auth.login','job.tag'])[1 + n % 5]",
        outcome="CASE WHEN n % 50 = 0 THEN 'refused' ELSE 'done' END",
        actor_kind="'user'",
        actor_id=user,
        actor_name=f"'user-' || ({user})",
        address="'10.0.0.' || n % 250",
        target_type="'job'",
        target_id="n::text",
        target_name=f"({WORDS})[1 + n % 8] || '-' || ({WORDS})[1 + n / 8 % 8] || '-' || n"
        f" || CASE WHEN n % {size.audit // 3} = 7 THEN '-needle' ELSE '' END",
        vc_id=vc,
        vc_name=f"'vc-' || n % {size.users} % {size.vcs}",
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE usage_usageday")
        for definition in indexes:
            cursor.execute(definition)
        for statement in USAGE_SUMS:
            cursor.execute(statement)
        cursor.execute("SET session_replication_role = DEFAULT")
        cursor.execute("VACUUM ANALYZE")


def _without_indexes(models_of_many: Sequence[type[Model]]) -> list[str]:
    """Drop the indexes of tables with many rows, and return the statements that make them again:
    an index is built five times as fast when all rows are there."""
    tables = [model._meta.db_table for model in models_of_many]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index"
            " WHERE indrelid::regclass::text = ANY(%s) AND NOT EXISTS"
            " (SELECT FROM pg_constraint WHERE conindid = indexrelid)",
            [tables],
        )
        found = cursor.fetchall()
        for name, _ in found:
            cursor.execute(f"DROP INDEX {name}")
    return [definition for _, definition in found]


def _large_job(size: Size) -> None:
    """Insert the oldest job, of user 1, which has many tasks."""
    job = "bench_fixed('001', 0)"
    at = f"bench_at(0, {size.jobs})"
    rows(
        Job,
        1,
        id=job,
        name="'large'",
        owner_id="1",
        vc_id="bench_fixed('002', 0)",
        state="'SUCCEEDED'",
        created_at=at,
        updated_at=at,
        spec_text="'command: python train.py'",
        spec=f"'{SPEC}'::jsonb",
        gpus=f"{size.tasks}",
        tasks_total=f"{size.tasks}",
        attempt="1",
        placed_at=at,
        finished_at=at,
        logs_deleted_at=at,
        use_counted="true",
    )
    role = "0"
    rows(
        TaskRole,
        1,
        id=role,
        job_id=job,
        name="'worker'",
        position="0",
        instances=f"{size.tasks}",
        gpus="1",
        cpu_millis="4000",
        memory_mb="16384",
        image="'registry.example.org/team/train:1'",
        command="'python train.py'",
        min_succeeded=f"{size.tasks}",
    )
    first = size.jobs
    rows(
        Task,
        size.tasks,
        id=f"{first} + n",
        job_id=job,
        role_id=role,
        index="n - 1",
        rank="n - 1",
    )
    rows(
        TaskAttempt,
        size.tasks,
        id="bench_fixed('006', n)",
        job_id=job,
        task_id=f"{first} + n",
        role_id=role,
        node_id=f"bench_fixed('003', n % {size.nodes} + 1)",
        index="1",
        epoch="1",
        state="'SUCCEEDED'",
        gpu_uuids="jsonb_build_array('GPU-' || n)",
        gpu_model="'A100'",
        network="'isolated'",
        created_at=at,
        updated_at=at,
        started_at=at,
        finished_at=at,
        released_at=at,
    )


def _samples(size: Size) -> None:
    """Insert the newest minutes of every GPU, and of the tasks that have ended."""
    gpus, ended = size.nodes * size.gpus, size.jobs - size.active
    this_minute = "date_trunc('minute', now())"
    for model, of, columns in (
        (
            GpuRollup,
            gpus,
            {
                "device_id": f"'GPU-' || (n % {gpus} + 1)",
                "utilization_sum": "n % 600",
                "utilization_max": "n % 100",
                "memory_used_mb_max": "n % 81920",
            },
        ),
        (
            TaskRollup,
            ended,
            {
                "cpu_percent_sum": "n % 2400",
                "cpu_percent_max": "n % 400",
                "memory_mb_max": "n % 16384",
            },
        ),
    ):
        rows(
            model,
            size.samples,
            attempt_id=f"bench_id('004', n % {ended} + 1, {size.jobs})",
            at=f"{this_minute} - (1 + (n - 1) / {of}) * interval '1 min'",
            seconds="60",
            samples="6",
            **columns,
        )


def rows(model: type[Model], count: int, /, where: str = "true", **columns: str) -> None:
    """Insert so many rows. `columns` are SQL expressions of n, counted from 1. What a database of
    the release before does not have yet is left out."""
    present = {name for (name,) in fetch(COLUMNS, [model._meta.db_table])}
    fields = [one for one in model._meta.concrete_fields if one.column in present]
    known = {f.column for f in fields}
    assert columns.keys() <= known, f"{model.__name__} has no {columns.keys() - known}"
    chosen: list[tuple[str, str]] = []
    values: list[Any] = []
    for one in fields:
        if one.column in columns:
            chosen.append((one.column, columns[one.column]))
        elif isinstance(one, models.AutoField) or one.null or one.has_db_default():
            continue
        elif getattr(one, "auto_now", False) or getattr(one, "auto_now_add", False):
            chosen.append((one.column, "now()"))
        else:
            chosen.append((one.column, f"%s::{one.db_type(connection)}"))
            values.append(one.get_db_prep_save(one.get_default(), connection))
    names = ", ".join(f'"{name}"' for name, _ in chosen)
    # A type that the expression has not by itself, such as varchar for text, is cast when stored.
    made = ", ".join(
        expression if "%s" in expression else expression.replace("%", "%%")
        for _, expression in chosen
    )
    sql = (
        f'INSERT INTO "{model._meta.db_table}" ({names}) SELECT {made}'
        f" FROM generate_series(1::bigint, {count}) n WHERE {where.replace('%', '%%')}"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
