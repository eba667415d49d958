"""State machines as tables of allowed moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from skep_platform.core.errors import IllegalTransition


class StateMachine:
    """`moves[state]` are the states that may follow; a state without successors is terminal."""

    def __init__(self, name: str, moves: Mapping[str, Iterable[str]]) -> None:
        self.name = name
        self.moves = {state: frozenset(after) for state, after in moves.items()}
        unknown = frozenset().union(*self.moves.values()) - self.moves.keys()
        if unknown:
            raise ValueError(f"{name}: states without a row: {sorted(unknown)}")

    @property
    def terminal(self) -> frozenset[str]:
        return frozenset(s for s, after in self.moves.items() if not after)

    @property
    def active(self) -> frozenset[str]:
        return frozenset(self.moves) - self.terminal

    def allows(self, state: str, to: str) -> bool:
        return to in self.moves[state]

    def before(self, to: str) -> frozenset[str]:
        """The states from which `to` can be reached: the guard of an UPDATE ... WHERE."""
        return frozenset(s for s, after in self.moves.items() if to in after)

    def check(self, state: str, to: str, subject: str) -> None:
        """Raises IllegalTransition, naming the subject."""
        if not self.allows(state, to):
            raise IllegalTransition(
                f"{self.name} {subject} is {state} and cannot become {to}",
                machine=self.name,
                subject=subject,
                state=state,
                to=to,
            )
