"""The wire contract between the control plane and a node agent.

One WebSocket per node carries JSON text frames (the models below, distinguished by `type`) and,
for log bytes alone, binary frames (`frames.LogFrame`). The server always sends the *complete*
desired state of a node with a revision; the agent always sends facts, numbered, until acknowledged.
Unknown message types and unknown fields are ignored on both sides, so that either may be newer.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal, get_args

from pydantic import Field, TypeAdapter

from skep_agent.check_messages import PEER_CHECKS as PEER_CHECKS
from skep_agent.check_messages import CheckReport as CheckReport
from skep_agent.check_messages import CheckResult as CheckResult
from skep_agent.check_messages import NodeChecks as NodeChecks
from skep_agent.image_messages import MAX_CACHED_IMAGES as MAX_CACHED_IMAGES
from skep_agent.image_messages import CachedImage as CachedImage
from skep_agent.image_messages import ImageSaveReport as ImageSaveReport
from skep_agent.image_messages import ImageSaves as ImageSaves
from skep_agent.image_messages import ImageSaveSpec as ImageSaveSpec
from skep_agent.image_messages import ImageSpec as ImageSpec
from skep_agent.image_messages import NodeImages as NodeImages
from skep_agent.image_messages import Prefetches as Prefetches
from skep_agent.image_messages import PrefetchReport as PrefetchReport
from skep_agent.image_messages import PrefetchSpec as PrefetchSpec
from skep_agent.inventory import Gpu as Gpu
from skep_agent.inventory import Inventory as Inventory
from skep_agent.inventory import Message as Message
from skep_agent.sample_messages import ContainerSample as ContainerSample
from skep_agent.sample_messages import GpuSample as GpuSample
from skep_agent.sample_messages import Samples as Samples
from skep_agent.storage_messages import INNER_MOUNTS as INNER_MOUNTS
from skep_agent.storage_messages import S3_MOUNTS as S3_MOUNTS
from skep_agent.storage_messages import S3Mount as S3Mount
from skep_agent.storage_messages import StorageMount as StorageMount

PROTOCOL_VERSION = 1
MAX_TEXT_FRAME = 16 * 1024 * 1024
MAX_LOG_BYTES = 256 * 1024
# Log bytes of a connection that are not acknowledged, at most: no heartbeat waits behind them.
LOG_WINDOW_BYTES = 4 * 1024 * 1024
FILES_DIR = "/run/skep/"  # of files that the platform puts into containers
ULIMITS = ("memlock", "nofile", "stack")  # what a job may ask for
SCRATCH_DIR = "/skep/scratch"
LOG_ACKS = "log_acks"  # it reads the message LogAcks
KEEPS = "keeps"  # it reads Desired.keep
FEATURES = [INNER_MOUNTS, S3_MOUNTS, PEER_CHECKS, LOG_ACKS, KEEPS]  # what older agents could not do
STREAMS_PATH = "/ws/agent/streams/"
# Where nodes send each other the packets of gang networks (UDP); others use another for VXLAN.
VXLAN_PORT = 14789
MAX_ABSENCE_S = 24 * 3600  # the longest planned absence of the server that an agent waits out

# WebSocket close codes; the agent stops for good on the fatal ones.
CLOSE_UNAUTHORIZED = 4401
CLOSE_PROTOCOL = 4400
CLOSE_SILENT = 4408  # an expected frame did not come in time: either side may be slow, try again
CLOSE_DUPLICATE = 4409
CLOSE_REPLACED = 4410
FATAL_CLOSE_CODES = frozenset({CLOSE_UNAUTHORIZED, CLOSE_PROTOCOL})

Stream = Literal["stdout", "stderr"]
# What a job may ask to be sent when it shall save its work.
CHECKPOINT_SIGNALS = frozenset({"SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP", "SIGTERM"})
# In a fact "stopping": no process of the task handles its checkpoint signal.
SIGNAL_UNHANDLED = "signal_unhandled"
# What `AttemptFact.error_code` may be. The server believes no other code: they decide whether a job
# is tried again, and some codes are its own.
ERROR_CODES = frozenset({
    "container_gone", "create_failed", "disk_full", "disk_quota_exceeded", "engine_down", "failed",
    "files_unavailable", "gpu_unavailable", "image_auth", "image_not_found", "image_pull",
    "log_limit_exceeded", "network_unavailable", "node_lost", "oom_killed", "port_conflict",
    "spec_refused", "start_failed", "storage_not_synced", "storage_unavailable",
})  # fmt: skip
# What the agent knows about an attempt; the control plane maps it onto its own state machine.
Phase = Literal[
    "pulling", "creating", "ready", "running", "stopping", "exited", "failed", "released"
]


# --- what the server wants --------------------------------------------------------------------


class FileSpec(Message):
    """A text file that the container finds at `path`, below FILES_DIR, when its command starts."""

    path: str
    content: str = Field(repr=False)
    mode: int = 0o444


class WorkingFiles(Message):
    """A gzipped tar archive, unpacked at `path` before the command starts. The agent gets it from
    the server by its hash, and checks that."""

    sha256: str
    size: int  # bytes
    path: str


class GangNode(Message):
    """A node of a gang. `gateway` is the address of its bridge in the network of the gang, `tasks`
    says which addresses in it belong to the host names of the tasks there."""

    name: str
    address: str  # where other nodes reach it
    gateway: str
    tasks: dict[str, str]


class GangNetwork(Message):
    """The network that the tasks of a gang have to themselves, over all their nodes."""

    vni: int  # of VXLAN
    subnet: str  # of IPv4, with all addresses of tasks and gateways
    nodes: list[GangNode]


class SharedSpec(Message):
    """What the tasks of a gang have in common, so that a thousand of them on a node do not repeat
    the addresses of all the others a thousand times."""

    env: dict[str, str] = {}
    secret_env: dict[str, str] = Field(default={}, repr=False)
    files: list[FileSpec] = []
    masks: list[str] = Field(default=[], repr=False)
    gang: GangNetwork | None = None
    hosts: dict[str, str] = {}
    mounts: list[StorageMount] = []
    s3: list[S3Mount] = []
    image_patterns: list[str] = []


class AttemptSpec(Message):
    """One task attempt as the node shall run it; the agent re-checks every field it acts on."""

    attempt_id: str
    epoch: int
    job_id: str
    job_name: str
    task_role: str
    task_index: int
    # "hold": get everything ready, create the container, say "ready" and wait for "run".
    desired: Literal["hold", "run", "stop"] = "run"
    image: ImageSpec
    # The rules of its virtual cluster, which the agent checks again: patterns of allowed images
    # ([]: every one), and whether by the tag `latest`.
    image_patterns: list[str] = []
    latest_images: bool = True
    command: str = Field(repr=False)  # one shell script
    env: dict[str, str] = {}
    # Variables that stand in no description of the container, only in a file within it; then the
    # command does, too.
    secret_env: dict[str, str] = Field(default={}, repr=False)
    secret_command: bool = False
    # It runs an ssh server, which as root confines its unprivileged part with chroot().
    ssh_server: bool = False
    # The node's InfiniBand devices, with memory that may be locked without a limit of its own.
    rdma: bool = False
    ulimits: dict[str, int] = {}  # of ULIMITS, in bytes or files; -1: without a limit
    masks: list[str] = Field(default=[], repr=False)  # what no log line may show
    files: list[FileSpec] = []
    working_files: WorkingFiles | None = None
    # MiB of a volume at SCRATCH_DIR that later attempts of the task on this node find again.
    scratch_mb: int = 0
    mounts: list[StorageMount] = []
    s3: list[S3Mount] = []
    work_dir: str = ""  # where the command starts; "": where the image says
    gpu_uuids: list[str] = []
    cpus: float
    memory_mb: int
    shm_mb: int = 64
    pids_limit: int = 4096
    # What its container may keep on the node's disk: 0 is without a limit.
    disk_mb: int = 0  # MiB written into its root and its anonymous volumes
    log_bytes: int = 0  # of its own log
    # "isolated": no other container reachable; "job": the job's private bridge on this node, where
    # `hostname` resolves; "gang": the network `gang`, in which the host names of all its tasks
    # resolve; "host": the node's own network, ports reserved by the server.
    network: Literal["isolated", "job", "gang", "host"] = "isolated"
    gang: GangNetwork | None = None
    hostname: str = ""
    hosts: dict[str, str] = {}  # in mode "host": host names of the gang's tasks and their addresses
    ports: dict[str, list[int]] = {}
    stop_grace_s: float = 30.0  # between SIGTERM and SIGKILL
    # An attempt that is stopped because it was preempted gets this signal first ("": none), and so
    # long to save its work before SIGTERM.
    checkpoint_signal: str = ""
    checkpoint_grace_s: float = 0.0
    stop_cause: Literal["", "preempted"] = ""
    # The rest of that time need not be waited for: no process of the gang handles the signal.
    stop_at_once: bool = False
    # Under which span the agent's own are recorded, as a traceparent of W3C; "": not traced.
    trace_parent: str = ""
    # On the wire only: the key in Desired.shared of what is to be added; "": nothing.
    shares: str = ""

    @property
    def all_mounts(self) -> list[StorageMount | S3Mount]:
        """What its container finds of storages, in the order of the mounts that the node makes."""
        return [*self.mounts, *self.s3]

    def with_shared(self, shared: SharedSpec) -> AttemptSpec:
        """All of it in one; what it says itself comes first."""
        return self.model_copy(
            update={
                "env": shared.env | self.env,
                "secret_env": shared.secret_env | self.secret_env,
                "files": [*shared.files, *self.files],
                "masks": [*shared.masks, *self.masks],
                "gang": self.gang or shared.gang,
                "hosts": shared.hosts | self.hosts,
                "mounts": [*shared.mounts, *self.mounts],
                "s3": [*shared.s3, *self.s3],
                "image_patterns": [*shared.image_patterns, *self.image_patterns],
                "shares": "",
            }
        )


# --- agent to server --------------------------------------------------------------------------


class LogPosition(Message):
    attempt_id: str
    stream: Stream
    offset: int


class Hello(Message):
    """First frame of a connection. `instance_id` names this agent's state directory: a second
    agent that presents the same credential from elsewhere is distinguished by it.

    `memory_id` names its journal, and changes when that is lost. `held` are the attempts that the
    agent holds, or knows to be over; None: an older agent, which does not report them. What
    was started and is not among them was forgotten, and is never started again.

    `features` are what this agent can do and older ones could not, see FEATURES."""

    type: Literal["hello"] = "hello"
    protocol_version: int = PROTOCOL_VERSION
    agent_version: str
    instance_id: str
    inventory: Inventory
    attempt_ids: list[str] = []  # attempts the node still holds, for log positions in Welcome
    memory_id: str = ""
    held: list[str] | None = None
    features: list[str] = []


class Heartbeat(Message):
    type: Literal["heartbeat"] = "heartbeat"
    seq: int
    revision: int = 0  # newest desired state the agent works on
    log_bytes_waiting: int = 0  # of output that was read and is not stored yet; more may wait
    # Of the disk that holds the containers; None: not known.
    disk_free_mb: int | None = None
    disk_total_mb: int | None = None


class InventoryChanged(Message):
    type: Literal["inventory"] = "inventory"
    inventory: Inventory


class AttemptFact(Message):
    """Something that happened to an attempt. Facts of one attempt are sent in order of `seq`,
    re-sent until acknowledged, and applying one twice changes nothing."""

    seq: int
    attempt_id: str
    epoch: int
    phase: Phase
    at: float  # seconds since the epoch, the node's clock
    container_id: str = ""
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool = False
    # For phase "failed": a stable code such as "image_not_found", and a sentence for the owner.
    error_code: str = ""
    message: str = ""
    pull_percent: int | None = None
    pull_bytes: int | None = None  # of compressed layers, so far
    pull_total_bytes: int | None = None  # of all that have to come; 0: not known yet
    memory_peak_mb: int | None = None
    xids: list[int] = []  # NVIDIA's error numbers of its GPUs, since it started
    disk_full: bool = False  # the node's disk, when it ended


class Report(Message):
    type: Literal["report"] = "report"
    facts: list[AttemptFact]


# --- server to agent --------------------------------------------------------------------------


class Welcome(Message):
    """The server accepts the connection. The lease runs `lease_s` from the moment the agent
    *sent* the newest heartbeat that was acknowledged; past it the node stops its containers."""

    type: Literal["welcome"] = "welcome"
    protocol_version: int = PROTOCOL_VERSION
    node_name: str
    session_epoch: int
    lease_s: float
    heartbeat_interval_s: float
    sample_interval_s: float
    log_positions: list[LogPosition] = []
    # Where to connect from now on; "" when the present address is right. Sent to agents that came
    # through the web server.
    gateway_url: str = ""
    # The server takes the times of lines with their bytes; an older one would take them for bytes.
    log_times: bool = False


class Desired(Message):
    """The complete desired state: an attempt that the node holds and that is not listed here was
    forgotten by the server on purpose, and is stopped and removed.

    `keep` are ids of attempts that the server cannot describe now: the node goes on with those
    that it holds, as it was sent them. For agents with the feature `keeps`."""

    type: Literal["desired"] = "desired"
    revision: int
    attempts: list[AttemptSpec]
    shared: dict[str, SharedSpec] = {}
    keep: list[str] = []

    def whole(self) -> Desired:
        """Return this state with all that attempts share put into each of them. Raises
        ProtocolError."""
        if {a.shares for a in self.attempts if a.shares} - self.shared.keys():
            raise ProtocolError("frame_invalid", "attempts share what is not there")
        whole = [a.with_shared(self.shared[a.shares]) if a.shares else a for a in self.attempts]
        return Desired(revision=self.revision, attempts=whole, keep=self.keep)


class NetworkPolicy(Message):
    """What containers on bridges reach outside, beyond the rules that always hold (see
    docs/network.md). Sent after Welcome, and again when it changes; without it, private addresses
    are closed."""

    type: Literal["network_policy"] = "network_policy"
    denied: list[str] = []  # addresses or networks of nodes and of the control plane
    allowed: list[str] = []  # addresses, networks or "address:port" of private services


class OpenStream(Message):
    """A user wants to reach into an attempt: the agent dials STREAMS_PATH + stream_id with its
    credential, and carries frames (see docs/agent-protocol.md) until either side closes."""

    type: Literal["open_stream"] = "open_stream"
    stream_id: str
    attempt_id: str
    kind: Literal["exec", "forward"]
    argv: list[str] = []  # exec: what to run; []: a shell
    tty: bool = False
    rows: int = 24
    cols: int = 80
    port: int = 0  # forward: of the task


class HeartbeatAck(Message):
    type: Literal["heartbeat_ack"] = "heartbeat_ack"
    seq: int


class ReportAck(Message):
    """All facts up to and with `seq` are stored."""

    type: Literal["report_ack"] = "report_ack"
    seq: int


class LogAck(Message):
    """All bytes of the stream before `offset` are stored; `end`: and its final size is known.
    `again`: what was sent after `offset` was not stored; the agent sends it again from there."""

    type: Literal["log_ack"] = "log_ack"
    attempt_id: str
    stream: Stream
    offset: int
    end: bool = False
    again: bool = False


class LogAcks(Message):
    """Several of them in one frame, for agents with the feature `log_acks`."""

    type: Literal["log_acks"] = "log_acks"
    acks: list[LogAck]


class Wait(Message):
    """The Hello was received and its Welcome comes later: many agents connect at once, and those
    whose lease ends first are served first. Sent every few seconds meanwhile."""

    type: Literal["wait"] = "wait"


class Leaving(Message):
    """The server stops on purpose, and expects to be back within `for_s` seconds. The node's lease
    runs that much longer from its last renewal; the next Welcome ends the extension."""

    type: Literal["leaving"] = "leaving"
    for_s: float


class Refused(Message):
    """Typed error, sent before the socket is closed."""

    type: Literal["error"] = "error"
    code: str
    message: str
    details: dict[str, object] = {}


AgentMessage = Annotated[
    Hello | Heartbeat | InventoryChanged | Report | Samples | NodeImages | PrefetchReport
    | ImageSaveReport | CheckReport,
    Field(discriminator="type"),
]  # fmt: skip
ServerMessage = Annotated[
    Welcome | NetworkPolicy | Desired | Prefetches | ImageSaves | NodeChecks | OpenStream
    | HeartbeatAck | ReportAck | LogAck | LogAcks | Wait | Leaving | Refused,
    Field(discriminator="type"),
]  # fmt: skip
_AGENT: TypeAdapter[AgentMessage] = TypeAdapter(AgentMessage)
_SERVER: TypeAdapter[ServerMessage] = TypeAdapter(ServerMessage)


class ProtocolError(ValueError):
    """A frame that cannot be understood; `code` is stable, the text says what was wrong."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnknownMessage(ProtocolError):
    """A well-formed frame of a type this side does not know: to be ignored."""


def _parse(adapter: TypeAdapter, text: str | bytes, known: frozenset[str]):
    if len(text) > MAX_TEXT_FRAME:
        raise ProtocolError("frame_too_large", f"{len(text)} bytes, at most {MAX_TEXT_FRAME}")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("frame_not_json", f"not JSON: {error}") from None
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        raise ProtocolError("frame_without_type", "a frame is an object with a `type`")
    if raw["type"] not in known:
        raise UnknownMessage("unknown_message", f"unknown message type {raw['type'][:40]!r}")
    try:
        return adapter.validate_python(raw)
    except ValueError as error:
        raise ProtocolError("frame_invalid", str(error)[:500]) from None


def _types(messages: object) -> frozenset[str]:
    """Return what `type` is in the messages of a union."""
    return frozenset(one.model_fields["type"].default for one in get_args(get_args(messages)[0]))


_AGENT_TYPES, _SERVER_TYPES = _types(AgentMessage), _types(ServerMessage)


def parse_agent_message(text: str | bytes) -> AgentMessage:
    """Parse a frame of an agent. Raises ProtocolError, or UnknownMessage for a type to ignore."""
    return _parse(_AGENT, text, _AGENT_TYPES)


def parse_server_message(text: str | bytes) -> ServerMessage:
    """Parse a frame of the server, with what attempts share put into each of them. Raises
    ProtocolError, or UnknownMessage for a type to ignore."""
    message = _parse(_SERVER, text, _SERVER_TYPES)
    return message.whole() if isinstance(message, Desired) else message
