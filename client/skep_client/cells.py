"""What a virtual cluster owns, in GPUs."""

from __future__ import annotations

from collections import Counter

from skep_client.models import Cells, VirtualCluster


def owned_gpus(vc: VirtualCluster, cells: Cells) -> dict[str, int]:
    """GPUs that a virtual cluster owns by model: by number, as cells, as pinned cells."""
    sizes = {
        (chain.chain, level.type): (chain.gpu_model, level.gpus)
        for chain in cells.chains
        for level in chain.levels
    }
    of_any_chain = {cell_type: size for (_, cell_type), size in sizes.items()}
    pins = {pin.name: pin.cell_type for pin in cells.pins}
    found = [(sizes.get((own.chain, own.cell_type)), own.number) for own in vc.cells]
    found += [(of_any_chain.get(pins.get(name, "")), 1) for name in vc.pins]
    owned = Counter(vc.quotas)
    for size, number in found:
        if size is not None:  # else its cells are gone with their last node
            owned[size[0]] += size[1] * number
    return dict(owned)
