"""The database: SQLAlchemy models, migrations, and queries by noun."""
