"""What Alembic runs: it works on the connection that `storage.database.migrate` hands over, in that one's transaction."""

from alembic import context

from kernelderby.storage import contest_models, models  # noqa: F401 (all tables)
from kernelderby.storage.base import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, transaction_per_migration=False, compare_type=True,
                  render_as_batch=connection.dialect.name == "sqlite")   # SQLite alters a table by making it anew
context.run_migrations()
