"""The database engine of the settings: PostgreSQL by Django, with a cheaper health check."""
