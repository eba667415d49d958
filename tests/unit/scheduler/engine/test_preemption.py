"""Who is preempted for whom, when, and that it never goes in a circle."""

from __future__ import annotations

from tests.support.cluster import Cluster, gang, node, owns

from skep_scheduler.model import Code, Options


def two_vcs(**more: object) -> Cluster:
    return Cluster([node(f"n{i}") for i in range(2)], owns(a=8, b=8), **more)  # type: ignore[arg-type]


def test_a_vc_takes_its_cells_back_from_opportunistic_gangs() -> None:
    cluster = two_vcs()
    cluster.run(gang("guest", "b", tasks=2, gpus=8, priority=-1))
    cluster.now = 60.0
    cluster.submit(gang("mine", gpus=8))
    plan = cluster.tick()
    assert [v.gang for v in plan.preemptions[0].victims] == ["guest"]
    assert plan.preemptions[0].victims[0].gpus == 16
    place = plan.preemptions[0].placement
    cluster.advance(65.0)
    assert cluster.state.running["mine"].tasks[0].node == place.tasks[0].node
    assert "guest" in cluster.state.waiting


def test_victims_run_for_a_least_time_first_and_the_gang_is_reported_until_when() -> None:
    cluster = two_vcs()
    cluster.run(gang("guest", tasks=2, gpus=8, priority=-1))
    cluster.now = 4.0
    cluster.submit(gang("mine", gpus=8))
    reason = cluster.tick().reasons["mine"]
    assert reason.code == Code.VICTIMS_TOO_YOUNG
    assert reason.details["at"] == 10.0
    cluster.now = 10.0
    assert [p.gang for p in cluster.tick().preemptions] == ["mine"]


def test_guaranteed_victims_in_the_same_vc_run_longer_before_that() -> None:
    cluster = two_vcs()
    cluster.run(gang("test", gpus=8, priority=10))
    cluster.submit(gang("prod", gpus=8, priority=100))
    cluster.now = 59.0
    assert cluster.tick().reasons["prod"].details["at"] == 60.0
    cluster.now = 60.0
    assert [v.gang for v in cluster.tick().preemptions[0].victims] == ["test"]


def test_who_leaves_already_is_not_asked_again_and_is_waited_for_at_any_age() -> None:
    cluster = two_vcs()
    cluster.run(gang("test", gpus=8, priority=10))
    cluster.ask_to_leave("test")
    cluster.submit(gang("prod", gpus=8, priority=100))
    preemption = cluster.tick().preemptions[0]
    assert preemption.victims == ()
    assert preemption.leaving == ("test",)
    cluster.advance(5.0)
    assert "prod" in cluster.state.running


def test_a_gang_that_is_not_preemptible_keeps_its_cells_but_not_what_it_borrows() -> None:
    cluster = two_vcs()
    cluster.run(gang("kept", gpus=8, priority=10, preemptible=False))
    cluster.now = 100.0
    cluster.submit(gang("prod", gpus=8, priority=100))
    assert cluster.tick().reasons["prod"].code == Code.VC_BUSY

    cluster = two_vcs()
    cluster.run(gang("guest", tasks=2, gpus=8, priority=-1, preemptible=False))
    cluster.now = 100.0
    cluster.submit(gang("mine", gpus=8))
    assert cluster.tick().preemptions


def test_equal_gangs_never_preempt_each_other() -> None:
    cluster = two_vcs()
    cluster.run(gang("one", gpus=8))
    cluster.submit(gang("two", gpus=8, at=1.0))
    cluster.advance(20_000.0, step_s=300.0)
    assert cluster.preempted == []


def test_a_lazy_gang_runs_on_opportunistically_instead() -> None:
    cluster = two_vcs()
    cluster.run(gang("lazy", gpus=8, priority=10, lazy=True))
    cluster.now = 60.0
    cluster.submit(gang("prod", gpus=8, priority=100))
    plan = cluster.tick()
    assert plan.downgrades["lazy"].code == "preempted_lazily"
    assert [p.gang for p in plan.placements] == ["prod"]
    assert {"lazy", "prod"} == cluster.state.running.keys()
    assert cluster.plan().downgrades == {}


def test_a_lazy_gang_is_preempted_where_nothing_else_is_idle() -> None:
    cluster = two_vcs()
    cluster.run(gang("lazy", gpus=8, lazy=True), gang("other", "b", gpus=8))
    cluster.now = 60.0
    cluster.submit(gang("prod", gpus=8, priority=100))
    plan = cluster.tick()
    assert [v.gang for v in plan.preemptions[0].victims] == ["lazy"]


def test_what_is_reserved_is_not_given_to_others() -> None:
    cluster = two_vcs()
    cluster.run(gang("guest", "b", tasks=2, gpus=8, priority=-1))
    cluster.now = 60.0
    cluster.submit(gang("mine", gpus=8))
    cluster.tick()
    cluster.end("guest")
    cluster.submit(gang("late", gpus=8, priority=-1, at=1.0), gang("later", priority=-1, at=2.0))
    plan = cluster.tick()
    nodes = {p.gang: p.nodes for p in plan.placements}
    assert nodes["mine"] != nodes["late"]
    assert plan.reasons.keys() == {"later"}


def test_a_stopped_preemptor_gives_everything_back() -> None:
    cluster = two_vcs()
    cluster.run(gang("guest", "b", tasks=2, gpus=8, priority=-1))
    before = cluster.state.digest()
    cluster.now = 60.0
    cluster.submit(gang("mine", gpus=8))
    plan = cluster.plan()
    cluster.state.set_nominated(cluster.state.waiting["mine"], plan.preemptions[0].placement)
    assert cluster.state.digest() != before
    cluster.state.forget("mine")
    assert cluster.state.digest() == before


def test_a_preemptor_whose_place_goes_bad_is_cancelled_and_looks_elsewhere() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=8))
    cluster.run(gang("guest", tasks=2, gpus=8, priority=-1))
    cluster.now = 60.0
    cluster.submit(gang("mine", gpus=8))
    bad = cluster.tick().preemptions[0].placement.nodes[0]
    cluster.state.set_node(node(bad, schedulable=False))
    assert cluster.tick().cancels["mine"].details == {"node": bad}
    again = cluster.tick().preemptions[0]  # who leaves anyway may be waited for without a pause
    assert again.victims == ()
    assert again.placement.nodes != (bad,)


def test_a_cancelled_preemptor_waits_longer_each_time() -> None:
    cluster = two_vcs()
    cluster.run(gang("guest", "b", tasks=2, gpus=8, priority=-1))
    cluster.now = 60.0
    cluster.submit(gang("mine", gpus=8))
    for times, pause in enumerate((30.0, 60.0, 120.0), 1):
        cluster.state.note_cancelled("mine", cluster.now)
        reason = cluster.plan().reasons["mine"]
        assert reason.code == Code.COOLING_DOWN, times
        assert reason.details["until"] == cluster.now + pause
        cluster.now += pause
        assert cluster.plan().preemptions


def test_a_higher_preemptor_takes_over_what_a_lower_one_has_reserved() -> None:
    cluster = two_vcs()
    cluster.run(gang("guest", "b", tasks=2, gpus=8, priority=-1))
    cluster.now = 60.0
    cluster.submit(gang("test", gpus=8, priority=10))
    cluster.tick()
    cluster.submit(gang("prod", gpus=8, priority=100))
    plan = cluster.tick()
    assert plan.cancels["test"].details["by"] == "prod"
    cluster.advance(70.0)
    assert "prod" in cluster.state.running
    assert "test" not in cluster.state.running


def test_a_gang_that_starts_in_this_very_plan_is_asked_to_leave_by_the_next_one() -> None:
    """Also where gangs have no least time to run."""
    options = Options(min_run_s=0.0, starvation_s=100.0)
    cluster = Cluster([node("n0")], owns(a=8), options)
    cluster.submit(gang("starves", gpus=8, priority=0), gang("first", gpus=8, at=150.0))
    cluster.now = 150.0
    plan = cluster.tick()
    assert [placement.gang for placement in plan.placements] == ["starves"]
    assert plan.reasons["first"].code == Code.VICTIMS_TOO_YOUNG
    (made,) = cluster.tick().preemptions
    assert [victim.gang for victim in made.victims] == ["starves"]
