"""Notifications: what users get in the page, by e-mail and by webhook, of the events that
lower apps record."""
