"""What policies decide by, in families, so that long lists of them are found through."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Family(StrEnum):
    """What the policies of a family have in common.

    order: who is first, one job after the other
    share: how much GPU time each user or job gets
    deadline: who must end by when
    elastic: how many GPUs each elastic job gets
    packing: which jobs share a GPU, or CPU and memory
    learned: what a trained network chooses
    """

    ORDER = "order"
    SHARE = "share"
    DEADLINE = "deadline"
    ELASTIC = "elastic"
    PACKING = "packing"
    LEARNED = "learned"


_MEMBERS: Mapping[Family, tuple[str, ...]] = {
    Family.ORDER: (
        *("priority_ageing", "fifo", "sjf", "ljf", "smallest", "largest", "pai_sjf"),
        *("lucid_order", "srtf", "srsf", "tiresias", "tiresias_gittins"),
    ),
    Family.SHARE: (
        *("drf", "hug", "carbyne", "gandiva_fair", "gandiva_trading", "stride", "themis"),
        "gavel",
    ),
    Family.DEADLINE: ("edf", "mlfs", "chronus", "karuna"),
    Family.ELASTIC: ("afs", "coddl", "optimus", "elasticflow"),
    Family.PACKING: ("gandiva", "lucid", "salus", "synergy"),
    Family.LEARNED: ("dl2", "mlf_rl"),
}
FAMILY_OF: Mapping[str, Family] = {
    name: family for family, members in _MEMBERS.items() for name in members
}
