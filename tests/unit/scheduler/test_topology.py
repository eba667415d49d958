"""Which GPUs within a node."""

from __future__ import annotations

import pytest
from tests.support.snapshots import gang, member, node, running, snapshot

from skep_scheduler import engine
from skep_scheduler.topology import closest, distance

Topology = dict[str, dict[str, str]]


def islands(*groups: str, within: str = "NV4", between: str = "SYS") -> Topology:
    """One GPU per letter; letters of one group lie `within` each other's reach."""
    letters = "".join(groups)
    same = {a: group for group in groups for a in group}
    return {a: {b: within if b in same[a] else between for b in letters if b != a} for a in letters}


CHOICES = {
    "an island is not left while it has enough": ("abcdefgh", 4, islands("aceg", "bdfh"), "aceg"),
    "the first island by UUID is taken when both do": ("abcdefgh", 2, islands("cd", "ab", "efgh"),
                                                       "ab"),
    "a small island is used up before a large one is broken": ("abcde", 1, islands("abcd", "e"),
                                                               "e"),
    "the last whole pair is kept whole": ("abc", 1, islands("ab", "c"), "c"),
    "only free GPUs count": ("abeh", 2, islands("abcd", "efgh"), "ab"),
    "all of them need no choice": ("ab", 2, islands("a", "b"), "ab"),
    "without a topology the first by UUID are taken": ("abcd", 2, {}, "ab"),
    "the farthest pair counts before the sum": (
        # a-b-c by NVLink and PHB; d-e-f all by PXB: nearer in sum is a-b-c, nearest at worst d-e-f.
        "abcdef", 3,
        {"a": {"b": "NV12", "c": "PHB"}, "b": {"c": "NV12"},
         "d": {"e": "PXB", "f": "PXB"}, "e": {"f": "PXB"}}, "def"),
    "half of a matrix is enough": ("abc", 2, {"b": {"c": "PIX"}}, "bc"),
    "unknown words count as the farthest": ("abc", 2, {"a": {"b": "???"}, "b": {"c": "NODE"}},
                                            "bc"),
    "more NVLinks are nearer": ("abc", 2, {"a": {"b": "NV1", "c": "NV2"}, "b": {"c": "NV1"}}, "ac"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHOICES)
def test_the_closest_gpus_are_chosen(case: str) -> None:
    free, count, topology, expected = CHOICES[case]
    assert "".join(closest(list(free), count, topology)) == expected


def test_levels_are_ordered_as_nvidia_smi_explains_them() -> None:
    words = ["NV18", "NV12", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS"]
    assert sorted(words, key=distance) == words


def test_too_many_sets_to_try_all_still_find_the_island() -> None:
    letters = [f"{i:02}" for i in range(32)]
    even, odd = letters[::2], letters[1::2]
    topology = {
        a: {b: "NV4" if (a in even) == (b in even) else "SYS" for b in letters if b != a}
        for a in letters
    }
    assert list(closest(letters, 16, topology)) == even
    assert list(closest(letters[1:], 16, topology)) == odd


def test_tasks_of_one_gang_get_an_island_each() -> None:
    uuids = node("a", 8).gpus["A100"]
    near = {"".join(uuid[-1]): uuid for uuid in uuids}
    words = islands("0246", "1357")
    topology = {near[a]: {near[b]: word for b, word in row.items()} for a, row in words.items()}
    machine = node("a", 8, topology=topology)
    job = gang("job", member(2, 4))
    tasks = engine.plan(snapshot([machine], [job]), now=0.0).placements[0].tasks
    assert [[uuid[-1] for uuid in task.gpu_uuids] for task in tasks] == [list("0246"), list("1357")]


def test_gpus_in_use_are_never_chosen_even_when_they_moved_to_another_node() -> None:
    a, b = node("a", 2), node("b", 2)
    moved = running("r", b, b.gpus["A100"][:1])
    elsewhere = running("s", a, ["b-A100-01"])  # its lease still names the old node
    plan = engine.plan(snapshot([b], [gang("job")], [moved, elsewhere]), now=0.0)
    assert plan.reasons["job"].code == "no_capacity"
