"""Job files of notebooks and tools: one task whose only work is the app."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skep_jobfile.writing import dump
from skep_platform.interactive.models import AppType

JUPYTERLAB_PORT, CODE_SERVER_PORT, TENSORBOARD_PORT = 8888, 8443, 6006
# Who may reach the program is decided before the proxy connects to it, and the network of tasks
# lets nothing else in. So it asks for no password of its own.
JUPYTERLAB = f"""\
command -v jupyter-lab > /dev/null || {{ echo "This image has no JupyterLab: no program is called \
jupyter-lab. Take one that has it, or install it by pip."; exit 127; }}
exec jupyter-lab --ip=0.0.0.0 --port={JUPYTERLAB_PORT} --ServerApp.port_retries=0 --no-browser \
--allow-root --IdentityProvider.token= --ServerApp.password= --ServerApp.allow_remote_access=True"""
CODE_SERVER = f"""\
command -v code-server > /dev/null || {{ echo "This image has no code-server. Take one that has it.\
"; exit 127; }}
exec code-server --bind-addr=0.0.0.0:{CODE_SERVER_PORT} --auth=none --disable-telemetry \
--disable-update-check ."""
# A shell that ends at once when it is asked to.
SHELL = """\
trap 'exit 0' TERM
while :; do sleep 3600 & wait $!; done"""
NO_TENSORBOARD = (
    'command -v tensorboard > /dev/null || { echo "This image has no TensorBoard: no program is '
    'called tensorboard. Take one that has it, or install it by pip."; exit 127; }'
)


def tensorboard(log_dir: str, port: int = TENSORBOARD_PORT) -> str:
    """Return the command that shows the event files of a folder; the name of the folder holds no
    quotation mark, see `api`."""
    return f"exec tensorboard --logdir='{log_dir}' --host=0.0.0.0 --port={port}"


_COMMANDS = {
    AppType.JUPYTERLAB: (JUPYTERLAB, JUPYTERLAB_PORT, "/lab"),
    AppType.CODE_SERVER: (CODE_SERVER, CODE_SERVER_PORT, "/"),
    AppType.SHELL: (SHELL, None, "/"),
}


def job_file(
    name: str,
    type: AppType,
    image: str,
    virtual_cluster: str,
    *,
    gpus: int,
    cpus: int,
    memory_mb: int,
    storages: Sequence[str] = (),
    log_dir: str = "",
) -> str:
    """Return the text of the job file of an app. `log_dir` is what TensorBoard shows."""
    if type == AppType.TENSORBOARD:
        command = f"{NO_TENSORBOARD}\n{tensorboard(log_dir)}"
        port: int | None = TENSORBOARD_PORT
        path = "/"
    else:
        command, port, path = _COMMANDS[type]
    app: dict[str, Any] = {"name": type.value, "type": type.value, "path": path, "idleStop": True}
    extras: dict[str, Any] = {"skep": {"apps": [app | ({"port": port} if port else {})]}}
    if storages:
        extras["storages"] = [{"name": storage} for storage in storages]
    resources = {"gpu": gpus, "cpu": cpus, "memoryMB": memory_mb}
    role = {"dockerImage": "image", "resourcePerInstance": resources, "commands": [command]}
    return dump(
        {
            "protocolVersion": 2,
            "name": name,
            "type": "job",
            "prerequisites": [{"type": "dockerimage", "name": "image", "uri": image}],
            "taskRoles": {"app": role},
            "defaults": {"virtualCluster": virtual_cluster},
            "extras": extras,
        }
    )
