"""What every app shares: ids, typed errors, state machines, events, notifications, settings."""
