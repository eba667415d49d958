"""`skep notifications`, `skep webhooks`: what Skep reports to you, and by which channels."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from skep_client import exits
from skep_client.cli.common import Json, client, local_time, print_json, print_table, say
from skep_client.errors import SkepError

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import NotificationDelivery, Webhook

Name = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Name of one of your webhooks.")]
CHANNELS = ("in_page", "email", "webhook")
TEST_LOOK_S = 1.0
TEST_WAIT_S = 30


def add_to(app: typer.Typer) -> None:
    notifications = typer.Typer(
        invoke_without_command=True, help="List your notifications, and choose what you get."
    )
    notifications.callback()(list_notifications)
    notifications.command("list")(list_notifications)
    notifications.command("read")(read)
    notifications.command("settings")(settings)
    notifications.command("set")(set_channel)
    notifications.command("test")(test_mail)
    app.add_typer(notifications, name="notifications")
    webhooks = typer.Typer(
        invoke_without_command=True, help="List and change the webhooks of your notifications."
    )
    webhooks.callback()(list_webhooks)
    webhooks.command("list")(list_webhooks)
    webhooks.command("add")(add)
    webhooks.command("enable")(enable)
    webhooks.command("disable")(disable)
    webhooks.command("new-secret")(new_secret)
    webhooks.command("test")(test_webhook)
    webhooks.command("deliveries")(deliveries)
    webhooks.command("delete")(delete)
    app.add_typer(webhooks, name="webhooks")


def list_notifications(
    context: typer.Context,
    unread: Annotated[bool, typer.Option("--unread", help="Only those not read.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most so many.")] = 20,
    as_json: Json = False,
) -> None:
    """List your notifications, newest first."""
    if context.invoked_subcommand is not None:
        return
    with client() as skep:
        found = []
        for one in skep.notifications(**({"unread": "true"} if unread else {}), limit=limit):
            found.append(one)
            if len(found) == limit:
                break
    if as_json:
        print_json(found)
        return
    print_table(
        ("ID", "AT", "", "WHAT", "MESSAGE"),
        [
            (
                one.id,
                local_time(one.updated_at),
                "" if one.read else "new",
                one.title,
                one.items[0].message if one.count == 1 and one.items else "",
            )
            for one in found
        ],
    )


def read(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Ids, as listed. Default: all.")
    ] = None,
) -> None:
    """Mark notifications as read."""
    with client() as skep:
        left = skep.mark_read(ids or None).unread
    say(f"{left} not read.")


def settings(as_json: Json = False) -> None:
    """Show what you are notified of, and by which channels."""
    with client() as skep:
        found = skep.notification_preferences()
    if as_json:
        print_json(found)
        return
    print_table(
        ("EVENT", *(channel.upper().replace("_", " ") for channel in CHANNELS), "WHEN"),
        [
            (
                one.event,
                *("yes" if c in one.channels else "" for c in CHANNELS),
                one.description,
            )
            for one in found.events
        ],
    )
    for channel in found.channels:
        if channel.problem:
            say(f"{channel.name}: {channel.problem}")


def set_channel(
    event: Annotated[str, typer.Argument(help="Such as job.failed; see `settings`.")],
    channel: Annotated[str, typer.Argument(help="in_page, email or webhook.")],
    on: Annotated[bool, typer.Option("--on/--off", help="Turn it on or off.")] = True,
) -> None:
    """Turn a channel of an event on or off."""
    with client() as skep:
        skep.set_notification_preferences({event: {channel: on}})
    say(f"{event} by {channel}: {'on' if on else 'off'}.")


def test_mail() -> None:
    """Send yourself a test by e-mail, and say what became of it."""
    with client() as skep:
        _report(skep, skep.send_test_notification("email"))


def list_webhooks(context: typer.Context, as_json: Json = False) -> None:
    """List your webhooks."""
    if context.invoked_subcommand is not None:
        return
    with client() as skep:
        found = list(skep.webhooks())
    if as_json:
        print_json(found)
        return
    print_table(
        ("NAME", "ADDRESS", "FORMAT", "STATE"),
        [(one.name, one.origin, one.format, _state(one)) for one in found],
    )


def add(
    name: Annotated[str, typer.Argument(help="So that you know it again.")],
    url: Annotated[str, typer.Argument(help="Public address of https or http.")],
    slack: Annotated[
        bool, typer.Option("--slack", help="Send a chat message, as Slack takes it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create a webhook, and show the secret that signs its requests. It is shown this once."""
    with client() as skep:
        made = skep.create_webhook(name, url, format="slack" if slack else "skep")
    if as_json:
        print_json(made)
    else:
        say(made.secret)


def enable(webhook: Name) -> None:
    """Enable a webhook that was disabled."""
    _change(webhook, enabled=True)
    say(f"{webhook} is enabled.")


def disable(webhook: Name) -> None:
    """Disable a webhook; what happens meanwhile is not sent later."""
    _change(webhook, enabled=False)
    say(f"{webhook} is disabled.")


def new_secret(webhook: Name) -> None:
    """Replace the secret of a webhook, and show the new one. The old one ends at once."""
    with client() as skep:
        say(skep.new_webhook_secret(_find(skep, webhook).id).secret)


def test_webhook(webhook: Name) -> None:
    """Send a test to a webhook, and say what became of it."""
    with client() as skep:
        _report(skep, skep.send_test_notification("webhook", _find(skep, webhook).id))


def deliveries(webhook: Name, as_json: Json = False) -> None:
    """List what was sent to a webhook in the last 30 days, newest first."""
    with client() as skep:
        found = list(skep.notification_deliveries(webhook=_find(skep, webhook).id))
    if as_json:
        print_json(found)
        return
    print_table(
        ("AT", "STATE", "ATTEMPTS", "WHAT", "ERROR"),
        [
            (local_time(one.created_at), one.state, one.attempts, one.title, one.error)
            for one in found
        ],
    )


def delete(webhook: Name) -> None:
    """Delete a webhook."""
    with client() as skep:
        skep.delete_webhook(_find(skep, webhook).id)
    say("Deleted.")


def _change(name: str, *, enabled: bool) -> None:
    with client() as skep:
        skep.update_webhook(_find(skep, name).id, enabled=enabled)


def _find(skep: Skep, name: str) -> Webhook:
    for one in skep.webhooks():
        if one.name == name:
            return one
    message = f"You have no webhook named {name}; `skep webhooks` lists them."
    raise SkepError(404, "webhook_not_found", message)


def _state(webhook: Webhook) -> str:
    if webhook.enabled:
        return "enabled"
    return f"disabled: {webhook.disabled_reason}" if webhook.disabled_reason else "disabled"


def _report(skep: Skep, delivery: NotificationDelivery) -> None:
    """Wait until a test was sent; exits with an error when it was not."""
    end = time.monotonic() + TEST_WAIT_S
    while delivery.state == "pending" and time.monotonic() < end:
        time.sleep(TEST_LOOK_S)
        delivery = skep.notification_delivery(delivery.id)
    if delivery.state == "sent":
        say("Sent.")
        return
    say(delivery.error or "It is still on its way.", err=True)
    raise typer.Exit(exits.FAILED)
