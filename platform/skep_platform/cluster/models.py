"""Nodes, their GPUs, and the tokens that let a node join."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models

from skep_platform.core.models import Entity, StateMachine

# Host names and addresses, too: HiveD's files call nodes so.
NODE_NAME = RegexValidator(
    r"\A[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}\Z", "Use letters, digits, '.', '-' and '_'."
)


class NodeState(models.TextChoices):
    JOINED = "JOINED"  # has a credential, was never connected
    ONLINE = "ONLINE"  # an agent is connected and its lease runs
    UNREACHABLE = "UNREACHABLE"  # no connection, yet its containers may still run: lease not over
    LOST = "LOST"  # the lease is over: the node has fenced itself, its GPUs may be given away
    REMOVED = "REMOVED"


NODE = StateMachine(
    "node",
    {
        "JOINED": ["ONLINE", "REMOVED"],
        "ONLINE": ["UNREACHABLE", "LOST", "REMOVED"],
        "UNREACHABLE": ["ONLINE", "LOST", "REMOVED"],
        "LOST": ["ONLINE", "REMOVED"],
        "REMOVED": [],
    },
)


class Node(Entity):
    """A machine with an agent. `desired_revision` rises with every change of what it shall run."""

    first_session = False  # of the row that `sessions.open_session` returns: it never had one

    name = models.CharField(max_length=63, validators=[NODE_NAME])
    state = models.CharField(max_length=16, choices=NodeState.choices, default=NodeState.JOINED)
    cordoned = models.BooleanField(default=False)  # admin: place nothing new here
    cordon_reason = models.CharField(max_length=300, blank=True)  # where no admin did it
    draining = models.BooleanField(default=False)  # admin: and what is here shall go
    address = models.CharField(max_length=255, blank=True)
    cpu_millis = models.PositiveIntegerField(default=0)
    memory_mb = models.PositiveIntegerField(default=0)
    port_first = models.PositiveIntegerField(default=20000)
    port_last = models.PositiveIntegerField(default=29999)
    driver_version = models.CharField(max_length=64, blank=True)
    engine_version = models.CharField(max_length=64, blank=True)
    # Versions of what keeps tasks apart (runc, NVIDIA's toolkit), of the kernel and of firmware.
    components = models.JSONField(default=dict)
    agent_version = models.CharField(max_length=64, blank=True)
    runtime = models.CharField(max_length=16, blank=True)
    rdma = models.BooleanField(default=False)  # it has InfiniBand devices for tasks
    gang_network = models.BooleanField(default=False)  # it takes part in networks of gangs
    # Its agent mounts folders within an export safely; older ones do not.
    inner_mounts = models.BooleanField(default=False, db_default=False)
    # Its agent copies what lies in object stores; older ones do not.
    s3_mounts = models.BooleanField(default=False, db_default=False)
    # Its agent measures the network to other nodes; older ones do not.
    peer_checks = models.BooleanField(default=False, db_default=False)
    network_problem = models.CharField(max_length=300, blank=True)  # why no container is isolated
    # What its operator should see to, as its agent says: [{"code", "message", "action"}].
    warnings = models.JSONField(default=list, db_default=[])
    topology = models.JSONField(default=dict)
    # What the agent reports, overridden by what an admin set; both are kept.
    labels = models.JSONField(default=dict)
    reported_labels = models.JSONField(default=dict)
    admin_labels = models.JSONField(default=dict)

    credential_hash = models.CharField(max_length=64, blank=True, db_index=True)  # sha256 hex
    instance_id = models.CharField(max_length=64, blank=True)  # the connected agent's state dir
    memory_id = models.CharField(max_length=64, blank=True)  # its journal; anew: it forgot
    # Of the inventory that is stored: one that has not changed costs nothing. "": compare it.
    inventory_digest = models.CharField(max_length=64, blank=True)
    session_epoch = models.PositiveBigIntegerField(default=0)  # fences older connections
    connected = models.BooleanField(default=False)
    last_heartbeat_at = models.DateTimeField(null=True)
    lease_expires_at = models.DateTimeField(null=True)  # the server's view, margin included
    desired_revision = models.PositiveBigIntegerField(default=0)
    # What the newest heartbeat reported of the node's own disk (null: not known), and of output
    # that it holds back because it is not stored yet.
    disk_free_mb = models.PositiveIntegerField(null=True)
    disk_total_mb = models.PositiveIntegerField(null=True)
    log_bytes_waiting = models.PositiveBigIntegerField(default=0)
    # Its maintenance that is on, or comes next, for the scheduler: a MaintenanceWindow, and those
    # that follow it without a break.
    maintenance_from = models.DateTimeField(null=True)
    maintenance_until = models.DateTimeField(null=True)
    # So many checks in a row it has to pass before it is used again by itself; 0: it has not.
    checks_needed = models.PositiveSmallIntegerField(default=0, db_default=0)

    class Meta:
        # No index on the columns that a heartbeat writes: it stays an in-page (HOT) update, and
        # the few thousand rows of this table are scanned in a millisecond.
        constraints = [
            models.UniqueConstraint(
                fields=["name"],
                condition=~models.Q(state="REMOVED"),
                name="node_name_once",
                violation_error_message="A node of this name exists.",
            )
        ]

    def __str__(self) -> str:
        return self.name


class ControlPlane(models.Model):
    """One row: whether any gateway is there to accept agents. Written by all of them every second;
    while none is, no node is judged by the end of its lease (see `cluster.sessions`)."""

    seen_at = models.DateTimeField()  # when a gateway was last up
    since = models.DateTimeField()  # from when on at least one was, without a break


class Device(models.Model):
    """A GPU, known by its UUID for ever; `node` is where it was last seen."""

    class Health(models.TextChoices):
        HEALTHY = "HEALTHY"
        BAD = "BAD"
        ABSENT = "ABSENT"  # its node no longer reports it

    uuid = models.CharField(max_length=80, primary_key=True)
    node = models.ForeignKey(Node, models.PROTECT, related_name="devices")
    model = models.CharField(max_length=100, db_index=True)
    memory_mb = models.PositiveIntegerField()
    index = models.PositiveSmallIntegerField()  # for people; never used to choose a GPU
    pci_bus_id = models.CharField(max_length=32, blank=True)
    numa_node = models.SmallIntegerField(null=True)
    health = models.CharField(max_length=16, choices=Health.choices, default=Health.HEALTHY)
    problem = models.CharField(max_length=200, blank=True)
    updated_at = models.DateTimeField(auto_now=True)


class JoinToken(Entity):
    """Lets nodes join within its time: one, unless it was made for more of them (a DaemonSet, an
    autoscaler). Only the SHA-256 of the token is kept."""

    token_hash = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    expires_at = models.DateTimeField()
    uses_left = models.PositiveIntegerField(default=1)
    # For this node alone, which it may also put in the place of one that is lost; "": for any
    # whose name is free.
    node_name = models.CharField(max_length=63, blank=True)


class CellLayout(models.Model):
    """One row: how the admin wants the cells to be. `text` is an imported HiveD file ("": as the
    agents report). `revision` rises with every change of layout, claims or pins, and shows an
    editor that another admin was faster."""

    text = models.TextField(blank=True)
    revision = models.PositiveBigIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)


class NodeFault(models.Model):
    """A failure of a task that was the node's fault, not the job's."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="faults")
    at = models.DateTimeField()
    code = models.IntegerField()  # of the diagnosis
    name = models.CharField(max_length=100)
    evidence = models.CharField(max_length=500, blank=True)
    from_log = models.BooleanField(default=False)  # the evidence is a line of the job's log
    attempt_id = models.UUIDField(unique=True)  # counted once
    # Faults of several witnesses take a node out of use. What the agent saw has the job as its
    # witness; what only a log says has the virtual cluster, so that no tenant alone can have nodes
    # cordoned. Null: it does not count, or the node was put to use again since.
    witness = models.UUIDField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["node", "-at"], name="fault_by_node"),
            models.Index(
                fields=["at"], condition=models.Q(witness__isnull=False), name="fault_counted"
            ),
        ]


class MaintenanceState(models.TextChoices):
    PLANNED = "PLANNED"  # nothing is placed on the node that would not end before it
    ACTIVE = "ACTIVE"  # the node is drained
    ENDED = "ENDED"
    CANCELLED = "CANCELLED"


OPEN_WINDOWS = (MaintenanceState.PLANNED, MaintenanceState.ACTIVE)


class MaintenanceWindow(Entity):
    """A time in which a node is not used. It is drained at the start and used again at the end."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="maintenance_windows")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.CharField(max_length=300, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    state = models.CharField(
        max_length=16, choices=MaintenanceState.choices, default=MaintenanceState.PLANNED
    )
    # By others than the window and the node's checks, at its start or since: it stays so.
    was_cordoned = models.BooleanField(default=False)
    was_draining = models.BooleanField(default=False, db_default=False)

    class Meta:
        indexes = [
            models.Index(
                fields=["node", "starts_at"],
                condition=models.Q(state__in=["PLANNED", "ACTIVE"]),
                name="maintenance_open",
            )
        ]

    @property
    def cordon_reason(self) -> str:
        """Why the node is cordoned while the window is on."""
        reason = f"Maintenance until {self.ends_at:%Y-%m-%d %H:%M} UTC"
        return (reason + (f": {self.reason}" if self.reason else ""))[:300]


class NodeCheckState(models.TextChoices):
    WAITING = "WAITING"
    PASSED = "PASSED"
    FAILED = "FAILED"


class NodeCheck(Entity):
    """One round of the checks that a node runs on itself before it is used: of its disk, its GPUs
    and the way to the servers. The agent runs it when no task is there."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="checks")
    cause = models.CharField(max_length=16)  # "joined", "maintenance", "admin", "repeated"
    state = models.CharField(
        max_length=16, choices=NodeCheckState.choices, default=NodeCheckState.WAITING
    )
    due_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    results = models.JSONField(default=list)  # name, passed, message and numbers of each check
    # To which nodes it measures the network (id, name, address, port and token of each), and until
    # when these listen. Null: not chosen yet.
    peers = models.JSONField(null=True)
    peers_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node"], condition=models.Q(state="WAITING"), name="one_node_check_waits"
            )
        ]
        indexes = [models.Index(fields=["node", "-id"], name="check_by_node")]


class AnnouncementSeverity(models.TextChoices):
    INFO = "info"
    WARNING = "warning"


class Announcement(Entity):
    """A message of the administrators to all users, such as a planned maintenance."""

    message = models.CharField(max_length=500)
    severity = models.CharField(
        max_length=16, choices=AnnouncementSeverity.choices, default=AnnouncementSeverity.INFO
    )
    expires_at = models.DateTimeField(null=True)  # null: shown until it is deleted
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )


class AnnouncementDismissal(models.Model):
    """That a user has read an announcement and wants to see it no longer."""

    announcement = models.ForeignKey(Announcement, models.CASCADE, related_name="dismissals")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["announcement", "user"], name="announcement_dismissed_once"
            )
        ]
