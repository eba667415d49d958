"""The fields below `extras.skep`: what Skep knows and OpenPAI's protocol does not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from skep_jobfile.metric_patterns import check_pattern
from skep_jobfile.part import CellType, Part, RoleName, Seconds
from skep_limits import (
    MAX_GRACE_S,
    MAX_METRIC_NAME,
    MAX_METRIC_PATTERN,
    MAX_METRICS,
    MAX_OPEN_FILES,
    MAX_SCRATCH_MB,
    METRIC_NAME,
    METRIC_STEP,
)

MAX_PRIORITY = 1000
MAX_DURATION_S = 366 * 86400
MAX_BARRIER_S = 86400
DEFAULT_BARRIER_S = 600
YEARS = range(2000, 2200)  # that every program between here and the page can represent
WORKSPACE = "/workspace"
DATASET = r"^[A-Za-z0-9][A-Za-z0-9_-]*(@[A-Za-z0-9][A-Za-z0-9._-]*)?$"
MAX_DATASETS = 16
# What the kernel and the platform put into containers.
TAKEN = ("/proc", "/sys", "/dev", "/run/skep")

MAX_DEPENDENCIES = 64
MAX_SPEEDS = 32
MAX_APPS = 8
MAX_JOB_REFERENCE = 512  # OWNER~NAME

DependencyCondition = Literal["afterok", "afternotok", "afterany", "after"]
AppType = Literal["jupyterlab", "code-server", "tensorboard", "shell", "web"]
CheckpointSignal = Literal["SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP", "SIGTERM"]
Grace = Annotated[Seconds, Field(ge=0, le=MAX_GRACE_S)]
Duration = Annotated[Seconds, Field(ge=1, le=MAX_DURATION_S)]
GpuModel = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^:;,=]+$")]
# A number of tasks as a key, which is a text in JSON and may be a number in YAML.
Instances = Annotated[
    str,
    BeforeValidator(lambda key: str(key) if type(key) is int else key),
    Field(pattern=r"^[1-9][0-9]{0,6}$"),
]
Speed = Annotated[float, Field(ge=0.001, le=1000.0, allow_inf_nan=False)]


def plain_folder(path: str) -> str:
    """Return a path without doubled slashes or one at its end."""
    return "/".join(["" if path.startswith("/") else ".", *filter(None, path.split("/"))])


def _moment(value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment.year not in YEARS:
        message = "a moment with its zone, such as 2027-01-31T18:00:00+01:00"
        raise PydanticCustomError("invalid_value", message)
    return moment.astimezone(UTC)


def _folder(path: str) -> str:
    steps = path.split("/")
    # As the kernel reads it: `//proc` and `/./proc` are /proc.
    path = path[:1] + "/".join(step for step in steps if step not in ("", "."))
    if not path.startswith("/") or len(path) < 2 or ".." in steps or not path.isprintable():
        message = "an absolute path below /, without `..`, such as /workspace"
        raise PydanticCustomError("invalid_value", message)
    if any(path == taken or path.startswith(f"{taken}/") for taken in TAKEN):
        raise PydanticCustomError("invalid_value", "this path belongs to the system")
    return path


Moment = Annotated[
    datetime,
    Field(strict=False),
    BeforeValidator(_moment),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Folder = Annotated[str, Field(max_length=255), AfterValidator(_folder)]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=255)]


class Checkpoint(Part):
    """How a job that is preempted is asked to save its work, before it is stopped."""

    signal: CheckpointSignal = Field(
        default="SIGUSR1", description="Sent to each process of a task that has a handler for it."
    )
    grace: Grace = Field(default=30, description="Time until SIGTERM, or until it exits by itself.")


class Elastic(Part):
    """With how many tasks of its last role the job may run."""

    min: Annotated[int, Field(ge=1, le=10**6)] = Field(description="The fewest tasks.")
    max: Annotated[int, Field(ge=1, le=10**6)] = Field(description="The most tasks.")
    speedup: Annotated[dict[Instances, Speed], Field(max_length=MAX_SPEEDS)] | None = Field(
        default=None,
        description="How fast the job is with numbers of tasks, relative to each other; in between "
        "it is linear. Default: a tenth of its work gets no faster by more tasks.",
        examples=[{"1": 1.0, "2": 1.9, "4": 3.6, "8": 6.5}],
    )


class GitSource(Part):
    """Working files out of a git repository, fetched in the container of each task."""

    url: Annotated[str, Field(pattern=r"^(https?|ssh|git|file)://", max_length=1000)] = Field(
        description="Address of the repository; `<% $secrets.x %>` works.",
        examples=["https://github.com/example/train.git"],
    )
    commit: Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")] = Field(
        description="Full hash of the commit."
    )


class Ulimits(Part):
    """Limits of the processes of a task; bytes or files, both soft and hard."""

    memlock: Annotated[int, Field(ge=1)] | Literal["unlimited"] | None = Field(
        default=None,
        description="Bytes that may be locked, at most the memory of the task; `unlimited`, the "
        "default there, with `infiniband`.",
    )
    nofile: Annotated[int, Field(ge=1, le=MAX_OPEN_FILES)] | None = Field(
        default=None, description="Open files of a process."
    )
    stack: Annotated[int, Field(ge=8192)] | Literal["unlimited"] | None = Field(
        default=None, description="Bytes of a stack, at most the memory of the task."
    )


class WorkingFiles(Part):
    """Files that each task starts with: an uploaded archive, or a commit of a repository."""

    archive: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = Field(
        default=None, description="Hash of an archive that was uploaded before."
    )
    git: GitSource | None = Field(default=None, description="A commit of a git repository.")
    path: Folder = Field(default=WORKSPACE, description="Folder that they are put in.")


class Dependency(Part):
    """Another job that has to start or end before this one is queued."""

    job: Annotated[str, Field(min_length=1, max_length=MAX_JOB_REFERENCE)] = Field(
        description="Name of a job of yours, OWNER~NAME, or the id of a job that you may see.",
        examples=["preprocess"],
    )
    condition: DependencyCondition = Field(
        default="afterok",
        description="`afterok`: it succeeded; `afternotok`: it failed or was stopped; `afterany`: "
        "it ended; `after`: it started.",
    )


class App(Part):
    """A program in the job that people open in a browser, through the platform's proxy."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=32)] = Field(
        description="What the job's page calls it.", examples=["notebook"]
    )
    type: AppType = Field(
        default="web",
        description="What it is: `web` is any program that answers HTTP, `shell` is the terminal "
        "of the job's page.",
    )
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description="Where it listens, at all addresses; not of a `shell`."
    )
    task_role: RoleName | None = Field(
        default=None, description="Role in whose first task it runs; default: the first role."
    )
    path: Annotated[str, Field(pattern=r"^/[^/\\]?[ -\[\]-~]*$", max_length=500)] = Field(
        default="/", description="What a browser opens first.", examples=["/lab"]
    )
    idle_stop: bool = Field(
        default=False,
        description="Stop the job when no one has used the app for as long as the virtual cluster "
        "allows (`app_idle_minutes`).",
    )


class ApiToken(Part):
    """A token of the REST API for the containers of the job."""

    scope: Literal["read", "submit"] = Field(
        default="submit",
        description="`read`: only reads; `submit`: also works with jobs and files.",
    )


class DatasetMount(Part):
    """A dataset that the tasks find as a folder, and cannot write."""

    name: Annotated[str, Field(pattern=DATASET, max_length=127)] = Field(
        description="NAME@VERSION of a dataset of the virtual cluster; NAME is its newest version.",
        examples=["imagenet@2"],
    )
    mount_path: str | None = Field(
        default=None, description="Folder in which the tasks find it; default /datasets/NAME."
    )

    @property
    def target(self) -> str:
        """Return the folder spelled plainly, as that of a storage."""
        return plain_folder(self.mount_path or f"/datasets/{self.name.partition('@')[0]}")


DatasetName = Annotated[str, Field(pattern=DATASET, max_length=127)]


def _metric(name: str) -> str:
    if name == METRIC_STEP:
        message = "a metric cannot be named step: that is where its points belong"
        raise PydanticCustomError("invalid_value", message)
    return name


def _pattern(text: str) -> str:
    if problem := check_pattern(text):
        raise PydanticCustomError("metric_pattern", "{problem}", {"problem": problem})
    return text


MetricName = Annotated[
    str, Field(pattern=METRIC_NAME, max_length=MAX_METRIC_NAME), AfterValidator(_metric)
]


class MetricPattern(Part):
    """A number that is read from the log, line by line."""

    name: MetricName = Field(description="What its plot is called.", examples=["loss"])
    pattern: Annotated[
        str, Field(min_length=1, max_length=MAX_METRIC_PATTERN), AfterValidator(_pattern)
    ] = Field(
        description="A regular expression of RE2 with one group, the number; a second one named "
        "`step` is where it belongs.",
        examples=["step (?P<step>[0-9]+).* loss=([0-9.e+-]+)"],
    )


# One kind of value is tried, so that a problem is named once, where it is.
OneMetric = Annotated[
    Annotated[MetricName, Tag("name")] | Annotated[MetricPattern, Tag("pattern")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "pattern"),
]
Metrics = Annotated[
    Annotated[bool, Tag("bool")]
    | Annotated[list[OneMetric], Field(min_length=1, max_length=MAX_METRICS), Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, list) else "bool"),
]


class SkepRole(Part):
    """What Skep knows of a task role and OpenPAI's protocol does not."""

    parallelism: Annotated[int, Field(ge=1, le=10**6)] | None = Field(
        default=None,
        description="At most so many tasks of the role run at the same time; needs "
        "`extras.gangAllocation: false`.",
        examples=[4],
    )


class SkepExtras(Part):
    """What Skep knows of a job and OpenPAI's protocol does not."""

    priority: Annotated[int, Field(ge=0, le=MAX_PRIORITY)] | None = Field(
        default=None, description="Instead of the one of its class: `test` is 10, `prod` is 100."
    )
    duration: Duration | None = Field(
        default=None,
        description="How long it will run: with it, it may start early in a gap.",
        examples=["2h30m", 5400],
    )
    max_duration: Duration | None = Field(
        default=None,
        description="When so much time has passed, it is stopped and has failed.",
        examples=["12h"],
    )
    deadline: Moment | None = Field(
        default=None,
        description="When its owner needs it to be done: a moment with its zone.",
        examples=["2027-01-31T18:00:00+01:00"],
    )
    speeds: Annotated[dict[GpuModel, Speed], Field(max_length=MAX_SPEEDS)] | None = Field(
        default=None,
        description="How fast it runs on GPU models, relative to each other; the policy `gavel` "
        "shares them out by it.",
        examples=[{"V100": 1.0, "A100": 2.2}],
    )
    begin: Moment | None = Field(
        default=None,
        description="The job is not started before this moment, given with its zone.",
        examples=["2027-01-31T18:00:00+01:00"],
    )
    depends_on: Annotated[list[Dependency], Field(max_length=MAX_DEPENDENCIES)] = Field(
        default=[],
        description="Jobs that this one waits for; it fails when that can never come to be.",
        examples=[[{"job": "preprocess", "condition": "afterok"}]],
    )
    task_roles: dict[RoleName, SkepRole] = Field(
        default={}, description="Further fields of task roles, by name of the role."
    )
    elastic: Elastic | None = Field(
        default=None,
        description="With how many tasks of its last role it may run: policies such as `afs` and "
        "`optimus` choose, and choose anew while it runs.",
    )
    checkpoint: Checkpoint | None = Field(
        default=None, description="How it is asked to save its work when it is preempted."
    )
    stop_grace: Grace | None = Field(
        default=None, description="Time between SIGTERM and SIGKILL; default 30 s."
    )
    barrier: Annotated[Seconds, Field(ge=1, le=MAX_BARRIER_S)] = Field(
        default=DEFAULT_BARRIER_S,
        description="Time until all tasks of a gang must be ready; then it is tried elsewhere.",
    )
    preemptible: bool = Field(
        default=True, description="False: it is preempted only while it is opportunistic."
    )
    network: Literal["bridge", "host"] | None = Field(
        default=None,
        description="`bridge`: a network of the job's own, the default; `host`: that of the nodes, "
        "with reserved ports, where the virtual cluster may.",
    )
    scratch: Annotated[int, Field(ge=1, le=MAX_SCRATCH_MB)] | None = Field(
        default=None,
        description="MiB of a folder of each task, `$SKEP_SCRATCH_DIR`, that its next attempt on "
        "the same node finds again.",
        examples=[10240],
    )
    ulimits: Ulimits | None = Field(
        default=None, description="Limits of the processes of its tasks, where the node's are low."
    )
    environment: Annotated[dict[VariableName, str | int | float | bool], Field(max_length=1000)] = (
        Field(
            default={},
            description="Variables of all tasks; templates and `<% $secrets.x %>` work.",
            examples=[{"NCCL_DEBUG": "INFO"}],
        )
    )
    api_token: bool | ApiToken = Field(
        default=False,
        description="Gives the containers `$SKEP_TOKEN` and `$SKEP_URL`: a token that acts as the "
        "owner in the job's virtual cluster until the job ends, so that it can submit its "
        "followers. `true`: with the scope `submit`.",
        examples=[True, {"scope": "read"}],
    )
    working_files: WorkingFiles | None = Field(
        default=None, description="Files that each task starts with."
    )
    work_dir: Folder | None = Field(
        default=None,
        description="Folder in which commands start; default that of the working files, or the "
        "image's.",
    )
    within_one_cell: CellType | None = Field(
        default=None, description="Type of the one cell that shall hold the whole job."
    )
    lazy_preemption: bool | None = Field(
        default=None, description="Continue as an opportunistic job instead of being stopped."
    )
    datasets: Annotated[list[DatasetName | DatasetMount], Field(max_length=MAX_DATASETS)] = Field(
        default=[],
        description="Datasets that its tasks find below `/datasets`, to read.",
        examples=[["imagenet@2", {"name": "labels", "mountPath": "/labels"}]],
    )
    home: bool = Field(
        default=True,
        description="False: the home of its owner is not mounted at `/home/USER`, and `$HOME` is "
        "as the image says.",
    )
    ignore_storages: bool = Field(
        default=False,
        description="Submit the job although a storage that it names is not mounted: what it "
        "writes there is lost with its containers.",
    )
    apps: Annotated[list[App], Field(max_length=MAX_APPS)] = Field(
        default=[],
        description="Programs in the job that people open in a browser, such as JupyterLab.",
        examples=[[{"name": "notebook", "type": "jupyterlab", "port": 8888}]],
    )
    metrics: Metrics = Field(
        default=False,
        description="Numbers that are read from the log of the job and plotted: `true` reads lines "
        "`::skep-metric loss=0.1 step=5`, as `skep_client.log` writes them; a list reads these and "
        "what it says: a name such as `loss` finds `loss=0.1` and `loss: 0.1`.",
        examples=[True, ["loss", {"name": "accuracy", "pattern": "top1 ([0-9.]+)%"}]],
    )
    metrics_role: RoleName | None = Field(
        default=None,
        description="Role whose first task writes the metrics; default: the first role.",
    )
    visibility: Literal["owner", "members", "everyone"] | None = Field(
        default=None,
        description="Who sees the job besides its owner, VC admins and "
        "admins: no one, the virtual cluster's members, every user. Default: as the virtual "
        "cluster says.",
    )

    @property
    def asked_datasets(self) -> list[DatasetMount]:
        return [DatasetMount(name=one) if isinstance(one, str) else one for one in self.datasets]

    @property
    def token_scope(self) -> Literal["read", "submit"] | None:
        """The scope of the API token that the job asks for; None: it asks for none."""
        if isinstance(self.api_token, ApiToken):
            return self.api_token.scope
        return "submit" if self.api_token else None
