"""What one box asks of its own public API: its last steps, once the web server runs, which make the
default virtual cluster; and the jobs that run when it goes down, whose containers go on unless they
are to be stopped."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Self

from skep_client import calls
from skep_client.client import AsyncSkep, Skep
from skep_client.errors import SkepError
from skep_client.models import Cluster, JobSummary, VirtualCluster
from skep_platform.onebox.home import Home
from skep_platform.onebox.options import Options

DEFAULT_VC = "default"


class Settler:
    def __init__(self, options: Options, token: str) -> None:
        self._options = options
        # Polled from here, so the client shall not wait on its own.
        self._client = AsyncSkep(options.url, token, retry_delays_s=())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def web_is_ready(self) -> bool:
        try:
            await self._client.run(calls.readyz())
        except SkepError:
            return False
        return True

    async def ensure_default_vc(self) -> None:
        """Create the virtual cluster "default", with the administrator in it, if there is none."""
        if await self._virtual_clusters():
            return
        me = await self._client.me()
        await self._client.run(calls.create_virtual_cluster(DEFAULT_VC, "Everything of this box"))
        await self._client.run(calls.set_member(DEFAULT_VC, me.username, "admin"))

    async def nodes_are_online(self) -> bool:
        wanted = set(self._options.node_names())
        return wanted <= {n.name async for n in self._client.nodes() if n.state == "ONLINE"}

    async def give_all_gpus_to_default_vc(self) -> None:
        """While "default" is the only virtual cluster, it owns every GPU of the box."""
        found = await self._virtual_clusters()
        if [vc.name for vc in found] != [DEFAULT_VC]:
            return
        quotas = _totals(await self._client.cluster())
        if quotas != found[0].quotas:
            await self._client.run(calls.set_quotas(DEFAULT_VC, quotas))

    async def remove_earlier_nodes(self, names: Iterable[str]) -> None:
        """Local nodes of an earlier start that are no longer wanted, unless jobs are on them."""
        for name in set(names) - set(self._options.node_names()):
            try:
                await self._client.run(calls.remove_node(name))
            except SkepError as error:
                if error.code not in ("node_busy", "not_found"):
                    raise

    async def _virtual_clusters(self) -> list[VirtualCluster]:
        return [vc async for vc in self._client.virtual_clusters()]


def _totals(cluster: Cluster) -> dict[str, int]:
    return {model: count.total for model, count in cluster.gpus.items() if count.total}


STOPPED_WITHIN_S = 60.0  # longer than the grace that a task gets


def active_jobs(home: Home, *, stop: bool) -> list[JobSummary]:
    """Return the jobs that run now; with `stop`, stop all jobs and return those that are left.
    Raises SkepError."""
    url, token = home.read_status()["url"], home.operator_token.read_text()
    with Skep(url, token, retry_delays_s=()) as skep:
        found = _active(skep)
        if not stop:
            return [job for job in found if job.state != "WAITING"]
        for job in found:
            skep.stop(job.id)
        deadline = time.monotonic() + STOPPED_WITHIN_S
        while found and time.monotonic() < deadline:
            time.sleep(0.2)
            found = _active(skep)
        return found


def _active(skep: Skep) -> list[JobSummary]:
    return list(skep.jobs(state=["WAITING", "RUNNING", "STOPPING"], limit=500))
