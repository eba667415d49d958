"""Jobs: the protocol, task roles, tasks, attempts and their lifecycle."""
