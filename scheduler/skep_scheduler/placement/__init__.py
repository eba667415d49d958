"""Where a gang can go, and which running gangs it preempts for that."""
