"""A gang as its containers see it: its members, their host names, and the files in which they find
each other.

One key pair serves a job attempt, for both sides: tasks log in with it, and their servers show it
as their own. So a task knows that it talks to its own gang, also on the network of the nodes, where
any process may hold a port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skep_agent.protocol import FILES_DIR, FileSpec

MAX_LISTED = 1500  # variables of a task that name all tasks
MASTER = "master"  # label of the port under which rank 0 is found


@dataclass(frozen=True, slots=True)
class Role:
    """A task role of the gang, with what each of its tasks has."""

    name: str
    instances: int
    gpus: int
    cpu_millis: int
    memory_mb: int
    shm_mb: int
    min_failed: int
    min_succeeded: int


@dataclass(frozen=True, slots=True)
class Member:
    """One task of the gang, as placed. `host` is where the others reach it."""

    attempt_id: str
    role: str
    index: int
    rank: int
    node: str
    host: str
    ports: Mapping[str, Sequence[int]]

    def port(self, label: str) -> int | None:
        """Return the first port with this label, if there is one."""
        numbers = self.ports.get(label)
        return numbers[0] if numbers else None


@dataclass(frozen=True, slots=True)
class Block:
    """A gang's addresses: those of tasks first, by rank, and then those of its nodes' bridges."""

    start: int
    size: int
    tasks: int

    @property
    def subnet(self) -> str:
        return f"{IPv4Address(self.start)}/{32 - (self.size - 1).bit_length()}"

    def task(self, rank: int) -> str:
        return str(IPv4Address(self.start + 1 + rank))

    def gateway(self, number: int) -> str:
        """Return the address of the bridge on the gang's node of this number."""
        return str(IPv4Address(self.start + 1 + self.tasks + number))


@dataclass(frozen=True, slots=True)
class Gang:
    job_id: str
    name: str
    owner: str
    vc: str
    roles: Sequence[Role]
    members: Sequence[Member]  # by rank
    attempt: int = 1  # of the job
    network: str = "isolated"
    work_dir: str = ""  # "": where the image says
    # What its owner asks for; nothing in it says where tasks lie, submitting refuses that.
    own: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_alone(self) -> bool:
        return len(self.members) == 1

    @property
    def is_listed(self) -> bool:
        """Whether each task gets variables for every other one: each in each is quadratic."""
        return sum(1 + 2 * len(m.ports) for m in self.members) <= MAX_LISTED


def host_of(role: str) -> str:
    """Return a role's part of its tasks' host names: names of the DNS have no underscores."""
    return role.replace("_", "-").strip("-") or "task"


def hostname(role: str, index: int) -> str:
    return f"{host_of(role)}-{index}"


HOSTFILE = f"{FILES_DIR}hostfile"
SSH_DIR = f"{FILES_DIR}ssh/"
SSH_CONFIG = f"{SSH_DIR}config"
SSH_START = f"{SSH_DIR}start"
SSH_CLIENT = f"{SSH_DIR}client"
HOST_KEY_ALIAS = "skep-job"
PRIVATE = 0o400
# Before the commands of a task that asks for the ssh plugin, and of the others of its gang.
START_COMMAND = f"sh {SSH_START}\n"
CLIENT_COMMAND = f"sh {SSH_CLIENT}\n"
NAMES_EACH = 16  # of a line "Host": old versions of ssh read 4096 bytes of a line

# For the tasks of the gang alone: a task may also log in elsewhere. The server of a task that began
# at the same moment may not listen yet.
SSH_OPTIONS = f"""\
  IdentityFile {SSH_DIR}id_ed25519
  IdentitiesOnly yes
  UserKnownHostsFile {SSH_DIR}known_hosts
  HostKeyAlias {HOST_KEY_ALIAS}
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectionAttempts 30
  LogLevel ERROR
"""
# Lets `ssh worker-1` and `ssh -p PORT ADDRESS` of the user find the settings. ssh asks the
# list of users for the home, not the environment.
CLIENT_SCRIPT = f"""\
uid=$(id -u 2>/dev/null) || exit 0
home=
while IFS=: read -r _ _ number _ _ folder _; do
  if [ "$number" = "$uid" ]; then home=$folder; break; fi
done < /etc/passwd
if [ -z "$home" ]; then exit 0; fi
config="$home/.ssh/config"
line="Include {SSH_CONFIG}"
if [ -f "$config" ]; then
  while read -r first; do if [ "$first" = "$line" ]; then exit 0; fi; done < "$config"
fi
umask 077
mkdir -p "$home/.ssh" 2>/dev/null || exit 0
{{
  echo "$line"
  if [ -f "$config" ]; then echo "Host *"; cat "$config"; fi
}} > "$config.skep" 2>/dev/null && mv "$config.skep" "$config"
exit 0
"""
# Starts the ssh server of a task, where its image has one. Sessions get the environment of the
# task: the server would give them an almost empty one. A forced command takes the place of the
# server's own sftp, too, so it starts the image's program for that.
START_SCRIPT = f"""\
sh {SSH_CLIENT}
PATH="$PATH:/usr/sbin:/usr/local/sbin:/sbin"
if ! sshd=$(command -v sshd); then
  echo "skep: this image has no sshd: no one can ssh into this task" >&2
  exit 0
fi
umask 077
dir=$(mktemp -d) || exit 0
export -p > "$dir/env"
cat > "$dir/session" <<'end'
#!/bin/sh
. "${{0%/*}}/env"
case $SSH_ORIGINAL_COMMAND in
  "") exec "${{SHELL:-/bin/sh}}" ;;
  internal-sftp*)
    for folder in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh /usr/libexec /usr/lib; do
      if [ -x "$folder/sftp-server" ]; then exec "$folder/sftp-server"; fi
    done
    echo "skep: this image has no sftp-server" >&2
    exit 1 ;;
  *) exec /bin/sh -c "$SSH_ORIGINAL_COMMAND" ;;
esac
end
chmod 700 "$dir/session"
mkdir -p /run/sshd 2>/dev/null
if "$sshd" -f /dev/null -E "$dir/log" -p "$PAI_CONTAINER_SSH_PORT" \\
  -o HostKey={SSH_DIR}id_ed25519 -o AuthorizedKeysFile={SSH_DIR}authorized_keys \\
  -o StrictModes=no -o PidFile=none -o PermitRootLogin=prohibit-password \\
  -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no \\
  -o "Subsystem=sftp internal-sftp" -o ForceCommand="$dir/session"
then
  echo "skep: the ssh server listens on port $PAI_CONTAINER_SSH_PORT"
else
  echo "skep: the ssh server does not start:" >&2
  cat "$dir/log" >&2 2>/dev/null
fi
exit 0
"""


def files_of_gang(
    gang: Gang, key: Ed25519PrivateKey, more_keys: Sequence[str] = ()
) -> list[FileSpec]:
    """Return the files that each task of the gang gets. `more_keys` may log in, too."""
    public = _public(key)
    keys = "".join(f"{line}\n" for line in (public, *more_keys))
    return [
        FileSpec(path=HOSTFILE, content=hostfile(gang)),
        FileSpec(path=SSH_CONFIG, content=ssh_config(gang)),
        FileSpec(path=SSH_START, content=START_SCRIPT),
        FileSpec(path=SSH_CLIENT, content=CLIENT_SCRIPT),
        FileSpec(path=f"{SSH_DIR}id_ed25519", content=_private(key), mode=PRIVATE),
        FileSpec(path=f"{SSH_DIR}authorized_keys", content=keys),
        FileSpec(path=f"{SSH_DIR}known_hosts", content=f"{HOST_KEY_ALIAS} {public}\n"),
    ]


def hostfile(gang: Gang) -> str:
    """Return the hostfile of Open MPI: a process for each GPU of a task, or one."""
    slots = {role.name: role.gpus or 1 for role in gang.roles}
    return "".join(f"{_alias(m)} slots={slots[m.role]}\n" for m in gang.members)


def ssh_config(gang: Gang) -> str:
    """Return the settings by which ssh reaches each task, by the name that it has in the hostfile
    or by its address with `-p`."""
    names = list(dict.fromkeys(n for m in gang.members for n in (_alias(m), m.host)))
    lines = [names[at : at + NAMES_EACH] for at in range(0, len(names), NAMES_EACH)]
    options = [f"Host {' '.join(line)}\n{SSH_OPTIONS}" for line in lines]
    return "".join([*(_host(m) for m in gang.members), *options])


def _host(member: Member) -> str:
    port = member.port("ssh") or 22
    return f"Host {_alias(member)}\n  HostName {member.host}\n  Port {port}\n"


def _alias(member: Member) -> str:
    return hostname(member.role, member.index)


def _private(key: Ed25519PrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


def _public(key: Ed25519PrivateKey) -> str:
    encoding, form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(encoding, form).decode()
