"""All reads of simulations."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from skep_platform.core.errors import Forbidden, NotFound
from skep_platform.simulations.models import Simulation
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import VirtualCluster


def visible_to(user: Any) -> QuerySet[Simulation]:
    """Return the simulations that a user may see: an admin all, a VC admin those of the own virtual
    clusters."""
    found = Simulation.objects.select_related("owner", "vc")
    if tenancy.is_admin(user):
        return found
    return found.filter(vc__in=tenancy.managed_by(user))


def find(user: Any, pk: UUID) -> Simulation:
    """Raises NotFound, also when it exists and the user may not know."""
    found = visible_to(user).filter(pk=pk).first()
    if found is None:
        raise NotFound(f"There is no simulation {pk}.")
    return found


def scope(user: Any, name: str) -> VirtualCluster | None:
    """Return the virtual cluster whose jobs are to be simulated; None for the whole cluster.

    Raises NotFound, and Forbidden for those who do not manage it.
    """
    if not name:
        if not tenancy.is_admin(user):
            message = "Only an admin may simulate the whole cluster. Name a virtual cluster."
            raise Forbidden(message)
        return None
    vc = tenancy.find(user, name)
    if not tenancy.manages(user, vc):
        raise Forbidden(f"Only admins of {vc.name} may simulate it.")
    return vc
