"""Maximum weight matching in a general graph: Edmonds' blossoms with labels, in O(n^3).

Muri groups jobs by it. A matching is unique only where weights differ, and many jobs are alike: the
order in which edges are looked at decides. It is that of Muri's artifact (Zhao et al., SIGCOMM
2022), as is the comparison of labels (`_close`), so that its published numbers come out.

Vertices are numbered from 1; 0 is none, and numbers above the vertices are blossoms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf, isclose

FREE, OUTER, INNER = -1, 0, 1
END = (0, 0)  # of an edge that is not there


def max_weight_matching(weights: Sequence[Sequence[float]]) -> list[int | None]:
    """Return the mate of each vertex, or None. `weights[u][v]` is above 0 where an edge is; the
    two directions of an edge may differ by a rounding error."""
    n = len(weights)
    if not any(weight > 0 for row in weights for weight in row):
        return [None] * n
    search = _Blossoms(weights)
    while search.augment():
        pass
    return [mate - 1 if mate else None for mate in search.mate[1 : n + 1]]


def _close(label: float, step: float) -> bool:
    """Return whether a label would be used up by a step."""
    return label <= step or isclose(label, step, rel_tol=1e-5)


class _Blossoms:
    """What is known of vertices and blossoms, by number.

    mate: the vertex at the other end of the matched edge
    top: the outermost blossom that it is in (a blossom that is dissolved: 0)
    side: FREE, OUTER or INNER in the trees of the present search
    parent: the vertex of the tree by which an inner one was reached
    best: the outer vertex with the least slack to it
    ring: the members of a blossom in their cycle, its base first
    member: by blossom and vertex, the member of its ring that the vertex is in
    ends, weight: of the edge that joins two of them
    """

    def __init__(self, weights: Sequence[Sequence[float]]) -> None:
        n = self.n = self.last = len(weights)
        self.weight = [[0.0] * (n + 1), *([0.0, *row] for row in weights)]
        self.ends = [[(u, v) for v in range(n + 1)] for u in range(n + 1)]
        most = max(max(row) for row in self.weight)
        self.label = [most] * (n + 1)
        self.mate = [0] * (n + 1)
        self.top = list(range(n + 1))
        self.side = [FREE] * (n + 1)
        self.parent = [0] * (n + 1)
        self.best = [0] * (n + 1)
        self.seen = [0] * (n + 1)
        self.stamp = 0
        self.ring: list[list[int]] = [[] for _ in range(n + 1)]
        self.member = [[u if u == v else 0 for v in range(n + 1)] for u in range(n + 1)]
        self.queue: deque[int] = deque()

    def augment(self) -> bool:
        """Look for a path that adds an edge to the matching; return whether there is one."""
        size = self.last + 1
        self.side, self.best = [FREE] * size, [0] * size
        self.queue.clear()
        for x in range(1, size):
            if self.top[x] == x and not self.mate[x]:
                self.parent[x], self.side[x] = 0, OUTER
                self._push(x)
        if not self.queue:
            return False
        while True:
            if self._grow():
                return True
            if not self._relabel():
                return False
            if self._follow_tight():
                return True
            for b in range(self.n + 1, self.last + 1):
                if self.top[b] == b and self.side[b] == INNER and self.label[b] <= 0:
                    self._dissolve(b)

    def _slack(self, x: int, y: int) -> float:
        u, v = self.ends[x][y]
        return self.label[u] + self.label[v] - self.weight[u][v] * 2.0

    def _grow(self) -> bool:
        """Scan the outer vertices that are queued; return whether a path was found."""
        n, top, label, side, best = self.n, self.top, self.label, self.side, self.best
        least: dict[int, float] = {}  # the slack of the best edge; labels stay as they are here
        while self.queue:
            u = self.queue.popleft()
            if side[top[u]] == INNER:
                continue
            row, own = self.weight[u], label[u]
            for v in range(1, n + 1):
                x = top[v]
                if row[v] <= 0 or x == top[u]:
                    continue
                slack = own + label[v] - row[v] * 2.0
                if slack <= 0:
                    if self._found(u, v):
                        return True
                    least.clear()
                    continue
                if x > n:
                    slack = self._slack(u, x)
                known = least.get(x)
                if known is None and best[x]:
                    known = least[x] = self._slack(best[x], x)
                if known is None or slack < known:
                    best[x], least[x] = u, slack
        return False

    def _relabel(self) -> bool:
        """Change labels by the least step that makes an edge tight or a blossom free; return
        whether a label is left that can be lowered."""
        step = inf
        for b in range(self.n + 1, self.last + 1):
            if self.top[b] == b and self.side[b] == INNER:
                step = min(step, self.label[b] / 2.0)
        for x in range(1, self.last + 1):
            if self.top[x] == x and self.best[x]:
                if self.side[x] == FREE:
                    step = min(step, self._slack(self.best[x], x))
                elif self.side[x] == OUTER:
                    step = min(step, self._slack(self.best[x], x) / 2.0)
        for u in range(1, self.n + 1):
            side = self.side[self.top[u]]
            if side == OUTER:
                if _close(self.label[u], step):
                    return False
                self.label[u] -= step
            elif side == INNER:
                self.label[u] += step
        for b in range(self.n + 1, self.last + 1):
            if self.top[b] == b and self.side[b] != FREE:
                self.label[b] += step * 2 if self.side[b] == OUTER else -(step * 2)
        return True

    def _follow_tight(self) -> bool:
        self.queue.clear()
        for x in range(1, self.last + 1):
            u = self.best[x]
            tight = self.top[x] == x and u and self.top[u] != x and self._slack(u, x) <= 0
            if tight and self._found(*self.ends[u][x]):
                return True
        return False

    def _found(self, a: int, b: int) -> bool:
        """Take a tight edge of an outer vertex; return whether it ends a path."""
        u, v = self.top[a], self.top[b]
        if self.side[v] == FREE:
            self.parent[v], self.side[v], self.best[v] = a, INNER, 0
            beyond = self.top[self.mate[v]]
            self.best[beyond], self.side[beyond] = 0, OUTER
            self._push(beyond)
        elif self.side[v] == OUTER:
            base = self._meeting(u, v)
            if not base:
                self._flip(u, v)
                self._flip(v, u)
                return True
            self._shrink(u, base, v)
        return False

    def _offer(self, u: int, x: int) -> None:
        best = self.best[x]
        if not best or self._slack(u, x) < self._slack(best, x):
            self.best[x] = u

    def _rate(self, x: int) -> None:
        self.best[x] = 0
        for u in range(1, self.n + 1):
            top = self.top[u]
            if self.weight[u][x] > 0 and top != x and self.side[top] == OUTER:
                self._offer(u, x)

    def _push(self, x: int) -> None:
        waiting = deque((x,))
        while waiting:
            x = waiting.popleft()
            if x <= self.n:
                self.queue.append(x)
            else:
                waiting.extend(self.ring[x])

    def _set_top(self, x: int, top: int) -> None:
        self.top[x] = top
        for y in self.ring[x]:
            self._set_top(y, top)

    def _place_in_ring(self, b: int, x: int) -> int:
        """Turn the ring so that an even number of steps leads from its base to `x`."""
        ring = self.ring[b]
        place = ring.index(x)
        if place % 2:
            ring[1:] = ring[:0:-1]
            return len(ring) - place
        return place

    def _match(self, x: int, y: int) -> None:
        u, v = self.ends[x][y]
        self.mate[x] = v
        if x <= self.n:
            return
        base = self.member[x][u]
        place = self._place_in_ring(x, base)
        ring = self.ring[x]
        for i in range(place):
            self._match(ring[i], ring[i ^ 1])
        self._match(base, y)
        self.ring[x] = ring[place:] + ring[:place]

    def _flip(self, u: int, v: int) -> None:
        while True:
            beyond = self.top[self.mate[u]]
            self._match(u, v)
            if not beyond:
                return
            up = self.top[self.parent[beyond]]
            self._match(beyond, up)
            u, v = up, beyond

    def _meeting(self, u: int, v: int) -> int:
        """Return the nearest common ancestor in a tree, or 0."""
        self.stamp += 1
        while u or v:
            if u:
                if self.seen[u] == self.stamp:
                    return u
                self.seen[u] = self.stamp
                u = self.top[self.mate[u]]
                if u:
                    u = self.top[self.parent[u]]
            u, v = v, u
        return 0

    def _new_blossom(self) -> int:
        for b in range(self.n + 1, self.last + 1):
            if not self.top[b]:
                return b
        self.last += 1
        for row, ends, member in zip(self.weight, self.ends, self.member, strict=True):
            row.append(0.0)
            ends.append(END)
            member.append(0)
        size = self.last + 1
        self.weight.append([0.0] * size)
        self.ends.append([END] * size)
        self.member.append([0] * size)
        self.ring.append([])
        for each in (self.label, self.mate, self.top, self.side, self.parent, self.best, self.seen):
            each.append(0)
        return self.last

    def _shrink(self, u: int, base: int, v: int) -> None:
        """Make a blossom of the cycle over `base` that the edge from `u` to `v` closes."""
        b = self._new_blossom()
        self.label[b], self.side[b], self.mate[b] = 0.0, OUTER, self.mate[base]
        ring = [base, *reversed(self._climb(u, base)), *self._climb(v, base)]
        self.ring[b] = ring
        self._set_top(b, b)
        for x in range(1, self.last + 1):
            self.weight[b][x] = self.weight[x][b] = 0.0
        self.member[b] = [0] * (self.last + 1)
        for part in ring:
            for x in range(1, self.last + 1):
                if self.weight[b][x] <= 0 or self._slack(part, x) < self._slack(b, x):
                    self.ends[b][x], self.weight[b][x] = self.ends[part][x], self.weight[part][x]
                    self.ends[x][b], self.weight[x][b] = self.ends[x][part], self.weight[x][part]
            for x in range(1, self.n + 1):
                if self.member[part][x]:
                    self.member[b][x] = part
        self._rate(b)

    def _climb(self, x: int, base: int) -> list[int]:
        path = []
        while x != base:
            inner = self.top[self.mate[x]]
            path += [x, inner]
            self._push(inner)
            x = self.top[self.parent[inner]]
        return path

    def _dissolve(self, b: int) -> None:
        """Give the members of an inner blossom back to the tree."""
        for part in self.ring[b]:
            self._set_top(part, part)
        entry = self.member[b][self.ends[b][self.parent[b]][0]]
        place = self._place_in_ring(b, entry)
        ring = self.ring[b]
        for i in range(0, place, 2):
            inner, outer = ring[i], ring[i + 1]
            self.parent[inner] = self.ends[outer][inner][0]
            self.side[inner], self.side[outer] = INNER, OUTER
            self.best[inner] = 0
            self._rate(outer)
            self._push(outer)
        self.side[entry], self.parent[entry] = INNER, self.parent[b]
        for part in ring[place + 1 :]:
            self.side[part] = FREE
            self._rate(part)
        self.top[b] = 0
