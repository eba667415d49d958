"""What a process knows of the nodes with work is asked for once, and then read without waiting."""

from __future__ import annotations

from uuid import UUID

from skep_platform.cluster.node_work import NodesWithWork

NODE = UUID(int=1)


def test_what_is_fresh_is_known_without_asking() -> None:
    asked: list[None] = []

    def ask() -> set[UUID]:
        asked.append(None)
        return {NODE}

    nodes = NodesWithWork(ask)
    assert nodes.fresh() is None
    assert nodes() == nodes.fresh() == nodes() == {NODE}
    assert len(asked) == 1
    nodes.forget()
    assert nodes.fresh() is None
    assert nodes() == {NODE}
    assert len(asked) == 2
