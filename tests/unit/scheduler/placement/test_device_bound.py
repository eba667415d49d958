"""What counting devices says of a gang before places are searched for it."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, member, node
from tests.support.examples import examples

from skep_scheduler.model import Claim, Options, VirtualCluster
from skep_scheduler.placement.base import Found
from skep_scheduler.placement.cells_placer import find
from skep_scheduler.placement.device_bound import DeviceBound

MODELS = ("A100", "V100")
GANG = st.tuples(
    st.integers(1, 2),  # tasks
    st.sampled_from([8, 4, 3, 2, 1]),  # GPUs of each
    st.sampled_from([0, 0, 0, 5, -1]),  # priority
    st.sampled_from([None, None, *MODELS]),
    st.booleans(),  # whether it is preemptible
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    running=st.lists(GANG, min_size=4, max_size=12),
    wanted=st.lists(GANG, min_size=1, max_size=2),
    stay=st.sets(st.integers(0, 11), max_size=4),
    back=st.sets(st.integers(0, 11), max_size=2),
)
def test_no_search_finds_places_where_devices_do_not_do(
    running: list[tuple[int, int, int, str | None, bool]],
    wanted: list[tuple[int, int, int, str | None, bool]],
    stay: set[int],
    back: set[int],
) -> None:
    """Whoever leaves, and whoever of them is counted as running again."""
    world = Cluster(
        [node(f"n{i}", 8, model=MODELS[i % 2]) for i in range(4)],
        (VirtualCluster("a", tuple(Claim("", model, 8) for model in MODELS)),),
        Options(starvation_s=1e9),
    )
    for i, (tasks, gpus, priority, model, preemptible) in enumerate(running):
        own = member(tasks, gpus, gpu_model=model)
        world.submit(gang(f"g{i}", members=[own], priority=priority, preemptible=preemptible))
    world.tick()
    state = world.state
    here = [f"g{i}" for i in range(len(running)) if i not in stay and f"g{i}" in state.running]
    again = [f"g{i}" for i in back if f"g{i}" in here]
    members = [member(t, n, gpu_model=m, role=f"r{i}") for i, (t, n, _, m, _) in enumerate(wanted)]
    waiting = gang("waits", members=members, priority=max(wanted[0][2], 0))
    bound = DeviceBound(state, state.kind_of(waiting))
    bound.take_away(here)
    bound.put_back(again)
    with state.trial():
        state.allocations.release_all([one for one in here if one not in again])
        found = find(state, waiting, state.kind_of(waiting), 1)
    assert bound.could_fit() or not isinstance(found, Found)
