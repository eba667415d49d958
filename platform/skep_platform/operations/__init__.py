"""What administrators run the platform by: its state, a doctor, alerts with actions, backups and
retention."""
