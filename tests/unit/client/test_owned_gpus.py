"""What a virtual cluster owns, added up from the three ways to own."""

from __future__ import annotations

from skep_client.cli.cluster import owned_gpus
from skep_client.models import Cells, VirtualCluster

CELLS = Cells.model_validate(
    {
        "revision": 1,
        "source": "inventory",
        "chains": [
            {
                "chain": "A100-NODE8",
                "gpu_model": "A100",
                "nodes": 2,
                "levels": [
                    {"type": "A100", "level": 1, "gpus": 1},
                    {"type": "A100-NODE8-x4", "level": 2, "gpus": 4},
                    {"type": "A100-NODE8", "level": 3, "gpus": 8},
                ],
            }
        ],
        "pins": [{"name": "mine", "cell_type": "A100-NODE8-x4", "node": "n1"}],
    }
)


def test_counts_cells_and_pins_add_up():
    vc = VirtualCluster.model_validate(
        {
            "name": "vision",
            "policy": {"name": "priority_ageing"},
            "quotas": {"A100": 2, "V100": 1},
            "cells": [{"chain": "A100-NODE8", "cell_type": "A100-NODE8", "number": 2}],
            "pins": ["mine"],
        }
    )
    assert owned_gpus(vc, CELLS) == {"A100": 2 + 16 + 4, "V100": 1}


def test_cells_that_are_gone_count_for_nothing():
    gone = {"chain": "H100-NODE8", "cell_type": "H100-NODE8", "number": 3}
    policy = {"name": "priority_ageing"}
    vc = VirtualCluster.model_validate(
        {"name": "vision", "policy": policy, "cells": [gone], "pins": ["lost"]}
    )
    assert owned_gpus(vc, CELLS) == {}
