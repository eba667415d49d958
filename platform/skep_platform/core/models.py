"""What the models of every app are made of: ids that sort by age, tables of states, base models,
and the append-only table of events."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from django.db import DatabaseError, models

from skep_platform.core.errors import IllegalTransition, NotFound

# Ids go on from the newest one when the clock was set back, by this much at most.
_MAX_ROLLBACK = 10_000 << 12  # milliseconds, in the units of `_newest`

_lock = threading.Lock()
_newest = 0  # Unix milliseconds and 12 bits of their fraction


def uuid7() -> uuid.UUID:
    """Return a UUID version 7: 48 bits of Unix milliseconds, 12 bits of their fraction (RFC 9562,
    section 6.2, method 3), then 62 random bits. The ids of a process rise strictly in the order in
    which they are made; those of several processes with the time, to a quarter of a microsecond."""
    global _newest
    ns = time.time_ns()
    stamp = ns // 1_000_000 << 12 | (ns % 1_000_000 << 12) // 1_000_000
    with _lock:
        if stamp <= _newest < stamp + _MAX_ROLLBACK:
            stamp = _newest + 1
        _newest = stamp
    random = int.from_bytes(os.urandom(8), "big") >> 2
    value = stamp >> 12 << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0x2 << 62 | random
    return uuid.UUID(int=value)


class StateMachine:
    """A table of allowed transitions: `moves[state]` are the states that may follow. A state
    without successors is terminal."""

    def __init__(self, name: str, moves: Mapping[str, Iterable[str]]) -> None:
        self.name = name
        self.moves = {state: frozenset(after) for state, after in moves.items()}
        unknown = frozenset().union(*self.moves.values()) - self.moves.keys()
        if unknown:
            raise ValueError(f"{name}: states without a row: {sorted(unknown)}")

    @cached_property
    def terminal(self) -> frozenset[str]:
        return frozenset(s for s, after in self.moves.items() if not after)

    @cached_property
    def active(self) -> frozenset[str]:
        return frozenset(self.moves) - self.terminal

    def allows(self, state: str, to: str) -> bool:
        return to in self.moves[state]

    def before(self, to: str) -> frozenset[str]:
        """Return the states from which `to` can be reached: the guard of an UPDATE ... WHERE."""
        return frozenset(s for s, after in self.moves.items() if to in after)

    def check(self, state: str, to: str, subject: str) -> None:
        """Raise IllegalTransition, which names the subject, unless the transition is allowed."""
        if not self.allows(state, to):
            raise IllegalTransition(
                f"{self.name} {subject} is {state} and cannot become {to}",
                machine=self.name,
                subject=subject,
                state=state,
                to=to,
            )


class Entity(models.Model):
    """A row with a time-ordered id and its times."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True

    def save(self, **options: Any) -> None:
        """Raises NotFound for a row that was deleted since it was read: Django would insert it
        again."""
        if not (self._state.adding or options.get("update_fields")):
            options["force_update"] = not options.get("force_insert", False)
        try:
            super().save(**options)
        except DatabaseError as error:
            if self._state.adding or type(error) is not DatabaseError or error.__cause__:
                raise
            raise NotFound("It was deleted meanwhile.") from None


class Event(models.Model):
    """Something that happened. A row is never changed, but for events of one kind that become one
    row when a subject has too many (`core.events.Folder`). `kind` is stable ("job.placed",
    "node.lost", "quota.changed"), `message` is a sentence for a person, `data` the numbers."""

    class Subject(models.TextChoices):
        JOB = "job"
        NODE = "node"
        VC = "vc"
        USER = "user"
        GROUP = "group"
        IMAGE = "image"
        ANNOUNCEMENT = "announcement"
        CELLS = "cells"  # the layout of the cluster's cells; it has no id

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(auto_now_add=True)
    subject_type = models.CharField(max_length=16, choices=Subject.choices)
    subject_id = models.CharField(max_length=64)
    kind = models.CharField(max_length=64)
    message = models.TextField()
    data = models.JSONField(default=dict)
    actor = models.CharField(max_length=150, blank=True)  # username, or "" for the system
    # Of a row that stands for several: how many, and when the first of them was; `at` is the last.
    # The default is the database's, for the processes of the version before.
    count = models.PositiveIntegerField(default=1, db_default=1)
    first_at = models.DateTimeField(null=True)
    # Users are to be notified of it (`core.user_events`), and the notifications are not written
    # yet.
    notify = models.BooleanField(default=False, db_default=False)

    class Meta:
        indexes = [
            models.Index(fields=["subject_type", "subject_id", "id"]),
            models.Index(fields=["id"], condition=models.Q(notify=True), name="event_to_notify"),
        ]


class Leadership(models.Model):
    """Which process leads where only one may: the scheduler, the beat. See `core.leadership`."""

    role = models.CharField(max_length=32, primary_key=True)
    owner = models.CharField(max_length=128)
    term = models.PositiveBigIntegerField(default=1)  # rises when another process takes over
    expires_at = models.DateTimeField()  # by the clock of the database
