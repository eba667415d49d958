"""Isolation as a task sees it from inside its container."""

from __future__ import annotations

import pytest
from tests.support.docker_tasks import make_spec, run, start

from skep_agent.containers import RuntimeFailure

pytestmark = pytest.mark.docker


async def test_attack_01_13_a_task_has_few_capabilities_and_cannot_get_more(runtime, busybox):
    script = "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status"
    lines = (await run(runtime, make_spec(busybox, script))).stdout.split("\n")
    status = dict(line.split(":\t", 1) for line in lines if line)
    # CHOWN 0, DAC_OVERRIDE 1, FOWNER 3, FSETID 4, KILL 5, SETGID 6, SETUID 7
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0b11111011
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


async def test_attack_01_host_processes_are_out_of_sight(runtime, busybox):
    ended = await run(runtime, make_spec(busybox, "ps -o comm | sort | uniq", network="host"))
    assert "dockerd" not in ended.stdout
    assert "systemd" not in ended.stdout


async def test_finding_s21_a_task_sees_no_cgroup_but_its_own(runtime, busybox):
    """Also on cgroup v1, where the engine's default is the host's namespace."""
    ended = await run(
        runtime, make_spec(busybox, "cut -d: -f3 /proc/self/cgroup; cat /proc/1/cgroup")
    )
    paths = {line.rpartition(":")[2] for line in ended.stdout.split()}
    assert paths == {"/"}


async def test_attack_02_nothing_of_the_host_is_mounted(runtime, busybox, docker_engine):
    spec = make_spec(
        busybox, "cat /proc/mounts; ls -a / /run /var/run 2>/dev/null; mount -t tmpfs x /tmp"
    )
    container_id = await start(runtime, spec)
    ended = await runtime.wait(container_id)
    output = b"".join([data async for _, data, _ in runtime.logs(container_id)]).decode()
    assert docker_engine.api.inspect_container(container_id)["Mounts"] == []
    assert "docker.sock" not in output
    assert ended.exit_code != 0  # may not mount


async def test_attack_03_there_are_no_devices_and_none_can_be_made(runtime, busybox):
    script = "ls /dev; mknod /tmp/mem c 1 1 || echo refused; dd if=/tmp/mem bs=1 count=1"
    ended = await run(runtime, make_spec(busybox, script, gpu_uuids=["GPU-1"]))
    harmless = {
        "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
        "stdout", "tty", "urandom", "zero",
    }  # fmt: skip
    seen = set(ended.stdout.split())
    assert "refused" in seen
    assert seen <= harmless | {"refused"}


async def test_attack_04_a_setuid_program_gives_nothing(runtime, made_image):
    image = made_image("USER bee")
    script = "id -u; su -c id root; echo $?; chmod u+s /bin/busybox; su -c id root; echo $?"
    ended = await run(runtime, make_spec(image, script))
    assert ended.stdout.split() == ["1000", "1", "1"]


async def test_attack_05_06_08_an_image_cannot_steer_loader_or_nvidia_hook(runtime, made_image):
    image = made_image(
        "ENV LD_PRELOAD=./poc.so LD_LIBRARY_PATH=/proc/self/cwd:/opt/lib",
        "ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=all NVIDIA_IMEX_CHANNELS=0",
        "ENV NVIDIA_MIG_CONFIG_DEVICES=all NVIDIA_MOFED=enabled DOCKER_RESOURCE_GPU=all KEPT=yes",
    )
    ended = await run(runtime, make_spec(image, "cat /proc/self/environ | tr '\\0' '\\n'"))
    env = dict(line.split("=", 1) for line in ended.stdout.splitlines() if "=" in line)
    assert env["NVIDIA_VISIBLE_DEVICES"] == env["DOCKER_RESOURCE_GPU"] == "void"
    assert env["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert env["LD_LIBRARY_PATH"] == "/opt/lib"
    assert env["KEPT"] == "yes"
    closed = ("LD_PRELOAD", "NVIDIA_IMEX_CHANNELS", "NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MOFED")
    assert [env[name] for name in closed] == [""] * 4


async def test_attack_04_a_working_directory_in_proc_is_refused(runtime, made_image):
    with pytest.raises(RuntimeFailure) as refusal:
        await runtime.create(make_spec(made_image("WORKDIR /proc/self/fd/8"), "true"))
    assert refusal.value.code == "spec_refused"


async def test_attack_07_a_task_with_a_forbidden_variable_is_not_created(runtime, busybox):
    spec = make_spec(busybox, "true", env={"NVIDIA_VISIBLE_DEVICES": "all"})
    with pytest.raises(RuntimeFailure) as refusal:
        await runtime.create(spec)
    assert refusal.value.code == "spec_refused"
    assert await runtime.list() == []


async def test_simulated_gpus_are_named_in_the_environment(runtime, busybox):
    spec = make_spec(
        busybox, "echo $SKEP_GPU_UUIDS $CUDA_VISIBLE_DEVICES", gpu_uuids=["GPU-a", "GPU-b"]
    )
    assert (await run(runtime, spec)).stdout == "GPU-a,GPU-b GPU-a,GPU-b\n"


async def test_attack_18_ports_that_an_image_exposes_are_not_published(
    runtime, made_image, docker_engine
):
    container_id = await start(runtime, make_spec(made_image("EXPOSE 8080"), "sleep 60"))
    found = docker_engine.api.inspect_container(container_id)
    assert not any((found["NetworkSettings"]["Ports"] or {}).values())


async def test_memory_cpu_shm_and_process_limits_are_seen_from_inside(runtime, busybox):
    script = (
        "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes memory.max 2>/dev/null;"
        " cat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us cpu.max 2>/dev/null | xargs;"
        " cat pids/pids.max pids.max 2>/dev/null; df -k /dev/shm | tail -1 | xargs"
    )
    spec = make_spec(busybox, script, memory_mb=48, cpus=0.5, shm_mb=8, pids_limit=33)
    memory, cpu, pids, shm = (await run(runtime, spec)).stdout.splitlines()
    assert memory == str(48 * 1024 * 1024)
    assert cpu == "50000 100000"
    assert pids == "33"
    assert shm.split()[1] == str(8 * 1024)


async def test_attack_31_shared_memory_is_full_at_its_limit(runtime, busybox):
    script = "dd if=/dev/zero of=/dev/shm/x bs=1M count=64 2>/dev/null; wc -c < /dev/shm/x"
    ended = await run(runtime, make_spec(busybox, script, shm_mb=8))
    assert ended.stdout.strip() == str(8 * 1024 * 1024)


async def test_attack_31_a_fork_bomb_stays_in_its_container(runtime, busybox):
    script = "for i in $(seq 200); do sleep 30 & done; echo not reached"
    ended = await run(runtime, make_spec(busybox, script, pids_limit=20))
    assert ended.exit.exit_code != 0
    assert "can't fork" in ended.stderr


async def test_attack_31_eating_memory_ends_the_task_alone_and_is_reported(runtime, busybox):
    script = "x=0123456789abcdef; while :; do x=$x$x; done"
    ended = await run(runtime, make_spec(busybox, script, memory_mb=32))
    assert ended.exit.oom_killed
    assert ended.exit.exit_code == 137
    assert ended.exit.memory_peak_mb == 32
