"""Facts on their way to the server: numbered, kept until acknowledged, re-sent on reconnect."""

from __future__ import annotations

from collections import deque

from skep_agent.protocol import AttemptFact

# Reported for people's eyes alone: while unsent, a newer fact of the same attempt replaces them.
_PASSING = frozenset({"pulling", "creating", "stopping"})


class Outbox:
    """`sent` facts await their acknowledgement, `waiting` ones are not yet sent on this
    connection. Sequence numbers rise strictly and are never used twice by one state directory."""

    def __init__(self, next_seq: int = 1) -> None:
        self.next_seq = next_seq
        self.sent: deque[AttemptFact] = deque()
        self.waiting: dict[int, AttemptFact] = {}
        self._passing: dict[str, int] = {}  # attempt -> seq of its replaceable waiting fact

    def add(self, fact: AttemptFact) -> None:
        """`fact.seq` must come from `take_seq`."""
        replaced = self._passing.pop(fact.attempt_id, None)
        if replaced is not None:
            self.waiting.pop(replaced, None)
        if fact.phase in _PASSING:
            self._passing[fact.attempt_id] = fact.seq
        self.waiting[fact.seq] = fact

    def take_seq(self) -> int:
        self.next_seq += 1
        return self.next_seq - 1

    def take(self, limit: int) -> list[AttemptFact]:
        """Return the next facts to send, in order, and count them as sent."""
        batch = [fact for _, fact in zip(range(limit), self.waiting.values(), strict=False)]
        for fact in batch:
            del self.waiting[fact.seq]
            if self._passing.get(fact.attempt_id) == fact.seq:
                del self._passing[fact.attempt_id]
        self.sent.extend(batch)
        return batch

    def ack(self, seq: int) -> list[AttemptFact]:
        """Return the facts that this acknowledges: those sent, up to and with `seq`."""
        acked = []
        while self.sent and self.sent[0].seq <= seq:
            acked.append(self.sent.popleft())
        return acked

    def rewind(self) -> None:
        """A new connection: everything unacknowledged is to be sent again."""
        self.waiting = {fact.seq: fact for fact in [*self.sent, *self.waiting.values()]}
        self.sent.clear()
