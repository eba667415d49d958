"""The inventory as cells: what agents and admins tell, built into a configuration.

built = build(inventory)              # Built(config, shortfalls, problems, models, left)
"""

from skep_scheduler.inventory.build import Built, build
from skep_scheduler.inventory.claims import Shortfall

__all__ = ["Built", "Shortfall", "build"]
