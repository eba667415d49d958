"""Files that the tasks of a gang find in their containers: how to reach each other.

One key pair serves a job attempt, for both sides: tasks log in with it, and their servers show it
as their own. So a task knows that it talks to its own gang, also on the network of the nodes, where
anybody may hold a port.
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skep_agent.protocol import FILES_DIR, FileSpec
from skep_platform.jobs.containers.gang import Gang, Member
from skep_platform.jobs.containers.hostnames import hostname

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
OPTIONS = f"""\
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
CLIENT = f"""\
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
START = f"""\
sh {SSH_CLIENT}
PATH="$PATH:/usr/sbin:/usr/local/sbin:/sbin"
if ! sshd=$(command -v sshd); then
  echo "skep: this image has no sshd: nobody can ssh into this task" >&2
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


def of_gang(gang: Gang, key: Ed25519PrivateKey, more_keys: Sequence[str] = ()) -> list[FileSpec]:
    """For each of its tasks the same. `more_keys` may log in, too."""
    public = _public(key)
    keys = "".join(f"{line}\n" for line in (public, *more_keys))
    return [
        FileSpec(path=HOSTFILE, content=hostfile(gang)),
        FileSpec(path=SSH_CONFIG, content=ssh_config(gang)),
        FileSpec(path=SSH_START, content=START),
        FileSpec(path=SSH_CLIENT, content=CLIENT),
        FileSpec(path=f"{SSH_DIR}id_ed25519", content=_private(key), mode=PRIVATE),
        FileSpec(path=f"{SSH_DIR}authorized_keys", content=keys),
        FileSpec(path=f"{SSH_DIR}known_hosts", content=f"{HOST_KEY_ALIAS} {public}\n"),
    ]


def hostfile(gang: Gang) -> str:
    """As Open MPI reads it: a process for each GPU of a task, or one."""
    slots = {role.name: role.gpus or 1 for role in gang.roles}
    return "".join(f"{_alias(m)} slots={slots[m.role]}\n" for m in gang.members)


def ssh_config(gang: Gang) -> str:
    """Return the settings by which ssh reaches each task, by the name that it has in the hostfile
    or by its address with `-p`."""
    names = list(dict.fromkeys(n for m in gang.members for n in (_alias(m), m.host)))
    lines = [names[at : at + NAMES_EACH] for at in range(0, len(names), NAMES_EACH)]
    options = [f"Host {' '.join(line)}\n{OPTIONS}" for line in lines]
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
