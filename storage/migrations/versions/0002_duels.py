"""Duels; what makes two submissions one entry; the certificate's bound beside a score."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Duels beside submissions; an old submission is an entry of its own bytes."""
    op.add_column("submissions", sa.Column("entry_sha", sa.String(64), nullable=False, server_default=""))
    op.add_column("submissions", sa.Column("bound_share", sa.Double(), nullable=False, server_default="0"))
    op.execute("UPDATE submissions SET entry_sha = source_sha")
    op.create_table(
        "duels", sa.Column("id", ID, primary_key=True), _refers("a", "submissions"), _refers("b", "submissions"),
        _refers("board", "boards", nullable=True), _refers("person", "people", nullable=True),
        sa.Column("device", sa.String(16), nullable=False), sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False), sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("lease_until", TIME), sa.Column("created_at", TIME, nullable=False), sa.Column("finished_at", TIME),
        sa.Column("ratio", sa.Double()), sa.Column("ratio_low", sa.Double()), sa.Column("ratio_high", sa.Double()),
        sa.Column("result", sa.JSON()),
    )
    is_open = sa.text("state <> 'done'")
    op.create_index("ix_duels_open", "duels", ["device", "id"], sqlite_where=is_open, postgresql_where=is_open)
    op.create_index("ix_duels_asked", "duels", ["person", "created_at"])
    op.create_index("ix_duels_a", "duels", ["a"])
    op.create_index("ix_duels_b", "duels", ["b"])


def downgrade() -> None:
    """Forget the duels."""
    op.drop_table("duels")
    op.drop_column("submissions", "bound_share")
    op.drop_column("submissions", "entry_sha")


def _refers(name: str, table: str, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, ID, sa.ForeignKey(f"{table}.id"), nullable=nullable)
