"""Periodic tidying of logins that are over."""

from __future__ import annotations

from celery import shared_task

from skep_platform.accounts import recovery, services


@shared_task(name="skep.accounts.tidy")
def tidy() -> None:
    """Delete expired sessions and tokens; they are refused already."""
    services.forget_expired()


@shared_task(name="skep.accounts.send_mails")
def send_mails() -> None:
    """Send links that recover accounts or confirm addresses, within seconds of the request."""
    recovery.send_due()
