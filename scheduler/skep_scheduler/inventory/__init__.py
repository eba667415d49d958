"""The inventory as cells: builds a configuration of cells from the reports of agents and the
claims of admins.

built = build(inventory)              # Built(config, shortfalls, problems, models, left)
checked = check(before, after)        # Checked(built, errors, left, shortfalls) for an editor
describe(config, cell_type)           # {"gpus", "kind", "words"}
from_hived(data, nodes)               # Imported(layout, claims, pins); raises ConfigError
to_hived(inventory)                   # plain data of a hivedscheduler.yaml
"""

from skep_scheduler.cells.problems import ConfigError, Problem
from skep_scheduler.inventory.build import Built, build
from skep_scheduler.inventory.check import Checked, Finding, Left, check
from skep_scheduler.inventory.claims import Shortfall
from skep_scheduler.inventory.hived import Imported, from_hived, to_hived
from skep_scheduler.inventory.names import gpu_model
from skep_scheduler.inventory.words import Description, describe

__all__ = [
    "Built",
    "Checked",
    "ConfigError",
    "Description",
    "Finding",
    "Imported",
    "Left",
    "Problem",
    "Shortfall",
    "build",
    "check",
    "describe",
    "from_hived",
    "gpu_model",
    "to_hived",
]
