"""Periodic tidying of logins that are over."""

from __future__ import annotations

from celery import shared_task

from skep_platform.accounts import device, ldap_sync, recovery, services, sessions
from skep_platform.core import rounds, steps


@shared_task(name="skep.accounts.tidy")
def tidy() -> None:
    """Delete expired sessions and tokens; they are refused already."""
    steps.run(tidy.name, services.forget_expired, device.forget_expired, sessions.forget_ended)


@shared_task(name="skep.accounts.send_mails")
def send_mails() -> None:
    """Send links that recover accounts or confirm addresses, within seconds of the request."""
    recovery.send_due()


rounds.sent_when(send_mails.name, recovery.is_due)


@shared_task(name="skep.accounts.sync_directory")
def sync_directory() -> None:
    """End sessions and tokens of users whom the directory has disabled, some hundreds at a time."""
    ldap_sync.sync()
