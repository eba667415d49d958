"""What users want to be notified of, and by which channel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.conf import settings
from django.core import signing
from django.db import transaction

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core.errors import SkepError
from skep_platform.core.user_events import BY_NAME, USER_EVENTS, Channel, UserEvent, mask
from skep_platform.notifications.models import Preferences

SALT = "skep.notifications.unsubscribe"
ALL_EVENTS = "*"

Chosen = Mapping[str, Collection[str]]


def of(user: User) -> dict[str, list[str]]:
    """Return the channels of each event, as they apply to a user. One query."""
    row = Preferences.objects.filter(user=user).first()
    return {one.name: channels_of(one, row.channels if row else {}) for one in USER_EVENTS}


def of_users(users: Collection[int]) -> dict[int, Chosen]:
    """Return what those of these users chose who chose anything. One query."""
    rows = Preferences.objects.filter(user__in=users)
    return dict(rows.values_list("user_id", "channels"))


def channels_of(event: UserEvent, chosen: Chosen) -> list[str]:
    """Return the channels of an event for a user who chose these."""
    wanted = set(chosen.get(event.name, event.defaults))
    return [c.value for c in Channel if c in event.always or (c in event.channels and c in wanted)]


@transaction.atomic
def update(user: User, changes: Mapping[str, Mapping[str, bool]]) -> None:
    """Turn channels of events on and off: {event: {channel: on}}.

    Raises SkepError `unknown_event` and `channel_not_offered`, each with the field."""
    for name, channels in changes.items():
        _check(name, channels)
    User.objects.select_for_update().get(pk=user.pk)
    row = Preferences.objects.filter(user=user).first() or Preferences(user=user)
    before = dict(row.channels)
    for name, channels in changes.items():
        wanted = set(channels_of(BY_NAME[name], row.channels))
        for channel, on in channels.items():
            wanted = wanted | {channel} if on else wanted - {channel}
        row.channels[name] = sorted(wanted)
    row.save()
    events = [e.name for e in USER_EVENTS if channels_of(e, row.channels)]
    User.objects.filter(pk=user.pk).update(notified_events=mask(events))
    audit.record(
        *("notification.preferences.update", "user", user.pk, user.get_username()),
        before=before,
        after=row.channels,
    )


def _check(name: str, channels: Mapping[str, bool]) -> None:
    event = BY_NAME.get(name)
    if event is None:
        message = f"There is no event {name[:64]!r}; the events are: {', '.join(BY_NAME)}."
        raise SkepError(message, code="unknown_event", field="events")
    for channel, on in channels.items():
        if channel not in event.channels or (channel in event.always and not on):
            offered = ", ".join(c for c in event.channels if c not in event.always)
            message = f"Of {name} these channels can be chosen: {offered}."
            raise SkepError(
                message, code="channel_not_offered", field=f"events.{name}.{channel[:16]}"
            )


def unsubscribe_token(user_id: int, event: str) -> str:
    """Return what an e-mail carries so that its reader can end e-mails of its kind without a
    login. It gives no other right, and does not expire."""
    return signing.dumps([user_id, event], salt=SALT)


def unsubscribe_url(token: str) -> str:
    """Return the page that asks whether to unsubscribe. Reading it changes nothing: programs that
    look for viruses open every link of an e-mail."""
    return f"{settings.SKEP_PUBLIC_URL.rstrip('/')}/unsubscribe?token={token}"


def unsubscribe(token: str) -> dict[str, Any]:
    """End e-mails of the event that a token names. Returns {event, description}. Raises SkepError
    `token_invalid`."""
    user, event = _read(token)
    channels = {Channel.EMAIL.value: False}
    update(user, {event.name: channels})
    return {"event": event.name, "description": event.description}


def _read(token: str) -> tuple[User, UserEvent]:
    try:
        user_id, name = signing.loads(token, salt=SALT)
        return User.objects.get(pk=user_id, deleted_at=None), BY_NAME[name]
    except (signing.BadSignature, User.DoesNotExist, KeyError, ValueError, TypeError):
        message = "This link is not one of ours, or was cut off; log in and change your settings."
        raise SkepError(message, code="token_invalid", field="token") from None
