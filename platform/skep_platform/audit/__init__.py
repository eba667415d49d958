"""The audit log: who did what to whom, from where, by which token."""
