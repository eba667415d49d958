"""A driver of GPUs that does not answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from skep_agent.accelerators.nvidia import NvmlProbe
from skep_agent.protocol import Gpu
from skep_agent.shell import probing
from skep_agent.shell.probing import Probing

GPU = Gpu(uuid="GPU-1", model="H100", memory_mb=81920, index=0)


class HangingProbe(NvmlProbe):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()

    def gpus(self) -> list[Gpu]:
        self.answers.wait()
        return [GPU]


async def test_gpus_are_bad_while_their_driver_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probing, "PATIENCE_S", 0.01)
    probe = HangingProbe()
    asked = Probing(probe)
    for _ in range(20):  # it is asked once, and waited for
        (gpu,) = await asked.gpus([GPU])
        assert (gpu.healthy, gpu.problem) == (False, probing.SILENT)
    monkeypatch.setattr(probing, "PATIENCE_S", 30.0)
    probe.answers.set()
    assert await asked.gpus([gpu]) == [GPU]
    await asked.close()


async def test_a_driver_that_hangs_holds_up_nothing_else_on_threads() -> None:
    probe = HangingProbe()
    asked = Probing(probe)
    questions: list[Callable[[], object]] = [probe.answers.wait] * 64
    waiting = [asyncio.ensure_future(asked.ask(question)) for question in questions]
    try:
        async with asyncio.timeout(30):
            assert await asyncio.to_thread(lambda: 7) == 7
    finally:
        probe.answers.set()
        await asyncio.gather(*waiting)
        await asked.close()
