"""The events that users can be notified of.

Lower apps write them as rows of `core.models.Event` with `notify` set, within the transaction of
the change; the app `notifications` turns these rows into notifications, e-mails and webhooks. What
a user wants of them is a mask of bits, so that the lifecycle of a job can decide from columns that
it reads anyway, without a statement of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Channel(StrEnum):
    """How a user is notified."""

    IN_PAGE = "in_page"
    EMAIL = "email"
    WEBHOOK = "webhook"


ALL = (Channel.IN_PAGE, Channel.EMAIL, Channel.WEBHOOK)


@dataclass(frozen=True, slots=True)
class UserEvent:
    """`kinds`: those of the rows in the table of events. `defaults`: the channels of a user who
    has not chosen others. `channels`: those that can be chosen; `always`: those that cannot be
    switched off."""

    name: str
    description: str
    kinds: tuple[str, ...]
    defaults: tuple[Channel, ...] = ()
    channels: tuple[Channel, ...] = ALL
    always: tuple[Channel, ...] = ()


# A position is a bit in what is stored of users and jobs: append, and never reorder.
USER_EVENTS: tuple[UserEvent, ...] = (
    UserEvent("job.started", "A job of yours started.", ("job.started",)),
    UserEvent("job.failed", "A job of yours failed, with the diagnosis.", ("job.failed",), ALL),
    UserEvent(
        "job.succeeded",
        "A job of yours succeeded.",
        ("job.succeeded",),
        (Channel.IN_PAGE, Channel.WEBHOOK),
    ),
    UserEvent(
        "job.stopped",
        "A job of yours was stopped, and not by you.",
        ("job.stopped",),
        (Channel.IN_PAGE, Channel.WEBHOOK),
    ),
    UserEvent("job.retried", "A job of yours failed and is tried again.", ("job.retried",)),
    UserEvent(
        "job.preempted",
        "A job of yours lost its place to another one, or to a drain.",
        ("job.preempted", "job.evicted"),
        (Channel.IN_PAGE, Channel.WEBHOOK),
    ),
    UserEvent(
        "job.waiting_long",
        "A job of yours waits for a long time.",
        ("job.waiting_long",),
        (Channel.IN_PAGE,),
    ),
    UserEvent("job.idle", "A job of yours leaves its GPUs idle.", ("job.idle",), ALL),
    UserEvent(
        "budget.warning",
        "Most of the GPU-hour budget of a virtual cluster that you manage is used.",
        ("budget.warning",),
        (Channel.IN_PAGE, Channel.EMAIL),
    ),
    UserEvent(
        "budget.used_up",
        "The GPU-hour budget of a virtual cluster that you manage is used up.",
        ("budget.used_up",),
        (Channel.IN_PAGE, Channel.EMAIL),
    ),
    UserEvent(
        "announcement.created",
        "An administrator announced something; every page shows it.",
        ("announcement.created",),
        channels=(Channel.EMAIL, Channel.WEBHOOK),
    ),
    UserEvent(
        "webhook.disabled",
        "A webhook of yours was disabled, after many failures.",
        ("webhook.disabled",),
        (Channel.IN_PAGE, Channel.EMAIL),
        channels=(Channel.IN_PAGE, Channel.EMAIL),
        always=(Channel.IN_PAGE,),
    ),
    UserEvent(
        "job.image_saved",
        "A container that you wanted saved as an image was saved.",
        ("job.image_saved",),
        (Channel.IN_PAGE, Channel.WEBHOOK),
    ),
    UserEvent(
        "job.image_not_saved",
        "A container that you wanted saved as an image was not saved, with the reason.",
        ("job.image_not_saved",),
        (Channel.IN_PAGE, Channel.WEBHOOK),
    ),
    UserEvent(
        "platform.alert",
        "An alert rule of which administrators want you to be notified fired, or is over.",
        ("platform.alert", "platform.alert_over"),
        ALL,
    ),
)
BY_NAME = {one.name: one for one in USER_EVENTS}
BY_KIND = {kind: one for one in USER_EVENTS for kind in one.kinds}
_BITS = {kind: 1 << i for i, one in enumerate(USER_EVENTS) for kind in one.kinds}


def mask(names: Iterable[str]) -> int:
    """Return the bits of these events, by name. Raises KeyError."""
    bits = 0
    for name in names:
        bits |= 1 << USER_EVENTS.index(BY_NAME[name])
    return bits


DEFAULT_MASK = mask(one.name for one in USER_EVENTS if one.defaults or one.always)


def wants(user_mask: int | None, kind: str, job_mask: int = 0) -> bool:
    """Return whether a user is to be notified of an event of this kind. `user_mask` is
    `User.notified_events`, None for one who has chosen nothing; `job_mask` is what the job file
    asks for."""
    known = DEFAULT_MASK if user_mask is None else user_mask
    return bool((known | job_mask) & _BITS.get(kind, 0))
