"""Users, API tokens and login."""
