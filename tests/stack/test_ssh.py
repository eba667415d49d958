"""A real OpenSSH and a real Open MPI between tasks on two agents."""

from __future__ import annotations

import docker
import pytest
from tests.support.ssh_image import ssh_image
from tests.support.stack_jobs import gang, log_lines, reach, submit, tasks

pytestmark = [pytest.mark.stack, pytest.mark.docker]

PLUGIN = {"com.microsoft.pai.runtimeplugin": [{"plugin": "ssh"}]}
# What people and programs do over ssh; the last one is the forwarding that VS Code Remote needs.
USE = """
if [ "$RANK" = 1 ]; then
  until [ -e /tmp/over ]; do sleep 0.1; done
  exit 0
fi
cd /tmp
echo "shell: $(ssh worker-1 hostname)"
echo "address: $(ssh -p "$PAI_worker_1_ssh_PORT" "$PAI_HOST_IP_worker_1" 'echo $RANK')"
echo payload > up
scp -q up worker-1:/tmp/there && echo "scp: $(ssh worker-1 cat /tmp/there)"
scp -q -O up worker-1:/tmp/old && echo "old scp: $(ssh worker-1 cat /tmp/old)"
echo "get /tmp/there /tmp/back" | sftp -q -b - worker-1 > /dev/null && echo "sftp: $(cat back)"
echo "tty: $(ssh -tt worker-1 'test -t 0 && echo yes' | tr -d '\\r')"
echo "input: $(echo three | ssh worker-1 'read x; echo $x')"
echo "forwarding: $(ssh -W "127.0.0.1:$PAI_worker_1_ssh_PORT" worker-1 < /dev/null | head -c 4)"
mpirun --map-by node -np 2 sh -c 'echo "mpi: $OMPI_COMM_WORLD_RANK $(hostname)"'
ssh worker-1 touch /tmp/over
"""


@pytest.mark.parametrize("user", ["root", "bee"])
def test_finding_j3_ssh_scp_sftp_forwarding_and_mpirun_between_two_agents(api, user):
    file = gang(ssh_image(docker.from_env(), user), USE, tasks=2, gpus=8, extras=PLUGIN)
    file["taskRoles"]["worker"]["resourcePerInstance"]["memoryMB"] = 512

    job_id = submit(api, file)

    reach(api, job_id, {"SUCCEEDED"})
    assert {task["attempt"]["node"] for task in tasks(api, job_id)} == {"node-1", "node-2"}
    first, *found = log_lines(api, job_id)[0]
    assert "the ssh server listens on port" in first
    assert sorted(found) == sorted(
        [
            *("shell: worker-1", "address: 1", "scp: payload", "old scp: payload"),
            *("sftp: payload", "tty: yes", "input: three", "forwarding: SSH-"),
            *("mpi: 0 worker-0", "mpi: 1 worker-1"),
        ]
    )
