"""Batch sizes that change while a job trains, as Shockwave's artifact has them (NSDI 2023).

`gns` (gradient noise scale) doubles the batch at given epochs; `accordion` has the largest batch
outside of a model's critical epochs and the job's own within them; `static` keeps its own.

The artifact has each rule twice. `path` is what it knows of a job beforehand, the batch size of
each of its epochs, of which the time that the job takes alone is made. `wanted` is what the job
asks for while it runs. They differ: see there.
"""

from __future__ import annotations

from math import ceil

MODES = ("static", "gns", "accordion")
DATASETS = {
    "ResNet-18": 50_000,
    "ResNet-50": 100_000,
    "Transformer": 10_000,
    "LM": 59_675,
    "Recommendation": 117_907,
    "CycleGAN": 6_287,
    "A3C": 4,
}
LARGEST = {"ResNet-18": 256, "ResNet-50": 128, "LM": 80, "Recommendation": 8192}
# Epochs at which a job of (model, batch, GPUs) doubles its batch.
DOUBLES = {
    ("ResNet-18", 16, 1): (31, 41, 51, 71),
    ("ResNet-18", 32, 1): (21, 31, 51),
    ("ResNet-18", 64, 1): (11, 31),
    ("ResNet-18", 128, 1): (11,),
    ("ResNet-18", 16, 2): (21, 31, 91, 111),
    ("ResNet-18", 32, 2): (11, 21, 41),
    ("ResNet-18", 64, 2): (21, 41),
    ("ResNet-18", 128, 2): (41,),
    ("ResNet-18", 16, 4): (11, 21, 81, 91),
    ("ResNet-18", 32, 4): (21, 31, 61),
    ("ResNet-18", 64, 4): (11, 61),
    ("ResNet-18", 128, 4): (11,),
    ("ResNet-50", 64, 1): (101,),
    ("ResNet-50", 32, 2): (101, 111),
    ("ResNet-50", 64, 2): (81,),
    ("ResNet-50", 32, 4): (131, 221),
    ("ResNet-50", 64, 4): (191,),
    ("LM", 5, 1): (31, 41, 61, 71),
    ("LM", 10, 1): (11, 21, 41),
    ("LM", 20, 1): (11, 41),
    ("LM", 40, 1): (11,),
    ("LM", 5, 2): (31, 51, 61, 71),
    ("LM", 10, 2): (11, 31, 41),
    ("LM", 20, 2): (31, 41),
    ("LM", 40, 2): (11,),
    ("LM", 5, 4): (11, 31, 71, 91),
    ("LM", 10, 4): (11, 31, 61),
    ("LM", 20, 4): (11, 61),
    ("LM", 40, 4): (61,),
    ("Recommendation", 512, 1): (21, 41, 71, 91),
    ("Recommendation", 1024, 1): (21, 51, 91),
    ("Recommendation", 2048, 1): (21, 41),
    ("Recommendation", 4096, 1): (41,),
}


def steps_per_epoch(model: str, batch: int) -> int:
    return ceil(DATASETS[model] / batch)


def path(model: str, batch: int, gpus: int, mode: str, epochs: int) -> list[int]:
    """Return the batch size of each epoch, as the artifact knows it beforehand."""
    if mode == "gns":
        return [_doubled(model, batch, gpus, epoch, epochs) for epoch in range(epochs)]
    if mode == "accordion" and model in LARGEST:
        # The first 30 % of a job keep its own batch, and Recommendation has more critical epochs.
        return [
            batch
            if epoch <= epochs * 0.3 or _critical(model, batch, epoch, beforehand=True)
            else LARGEST[model]
            for epoch in range(epochs)
        ]
    return [batch] * epochs


def wanted(model: str, first: int, batch: int, gpus: int, mode: str, epoch: int) -> int:
    """Return the batch size that a running job asks for in an epoch: `batch`, which it has, twice
    that (`gns`), or the largest or its `first` one (`accordion`)."""
    largest = LARGEST.get(model)
    if largest is None or first == largest:
        return batch
    if mode == "gns":
        known = max(760, epoch + 2)
        soon = max(_doubled(model, first, gpus, at, known) for at in (epoch, epoch + 1))
        return batch * 2 if soon > batch and batch != largest else batch
    if mode == "accordion":
        critical = _critical(model, first, epoch, beforehand=False)
        return first if critical else largest
    return batch


def _doubled(model: str, batch: int, gpus: int, epoch: int, epochs: int) -> int:
    """The last epoch of all keeps the first batch once a second doubling began (a habit)."""
    passed = sum(epoch >= at for at in DOUBLES.get((model, batch, gpus), ()))
    if passed > 1 and epoch == epochs - 1:
        return batch
    return min(batch << passed, LARGEST.get(model, batch))


def _critical(model: str, first: int, epoch: int, *, beforehand: bool) -> bool:
    if model == "ResNet-18":
        return epoch < (20 if first == 256 else 10) or epoch in (*range(150, 160), *range(250, 260))
    if model == "ResNet-50":
        return epoch % 30 < 10 and (epoch < 600 or not beforehand)
    if model == "LM":
        return epoch < 10
    head = {512: 30, 1024: 30, 2048: 40}.get(first, 10)
    return epoch < head or (beforehand and epoch in (*range(60, 70), *range(80, 90)))
