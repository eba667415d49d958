"""A command that runs the image's own ENTRYPOINT, on a real engine."""

from __future__ import annotations

import pytest
from tests.support.docker_tasks import make_spec, run

from skep_agent.containers import RuntimeFailure

pytestmark = pytest.mark.docker

ENTRY = r"""ENTRYPOINT ["printf", "<%s>\\n", "it's entry"]"""


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ('skep_entrypoint --lr "$RATE" "a b"', ["--lr", "0.1", "a b"]),
        ("skep_entrypoint", ["from cmd"]),
        ("cd /tmp && (skep_entrypoint x) && echo over", ["x", "over"]),
    ],
)
async def test_finding_j8_the_entrypoint_runs_with_these_arguments_or_with_its_cmd(
    runtime, made_image, command, found
):
    image = made_image(ENTRY, 'CMD ["from cmd"]')
    ended = await run(runtime, make_spec(image, command, env={"RATE": "0.1"}))
    lines = [line.strip("<>") for line in ended.stdout.splitlines()]
    assert lines == ["it's entry", *found], ended.stderr


async def test_finding_j8_its_exit_code_is_the_tasks(runtime, made_image):
    image = made_image('ENTRYPOINT ["/bin/sh", "-c", "exit 7"]')
    assert (await run(runtime, make_spec(image, "skep_entrypoint"))).exit.exit_code == 7


async def test_finding_j8_arguments_alone_are_the_command_of_an_image_without_entrypoint(
    runtime, busybox
):
    assert (
        await run(runtime, make_spec(busybox, "skep_entrypoint echo hello"))
    ).stdout == "hello\n"


async def test_finding_j8_an_image_with_nothing_to_run_is_refused(runtime, busybox):
    with pytest.raises(RuntimeFailure, match="neither ENTRYPOINT nor CMD"):
        await runtime.create(make_spec(busybox, "skep_entrypoint"))
