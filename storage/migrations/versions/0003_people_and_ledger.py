"""Agents' tokens with budgets, logins bound to tokens, and the ledger of what attempts cost."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Older submissions came by nobody's agent, and older attempts cost nothing."""
    op.add_column("tokens", sa.Column("agent", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("tokens", sa.Column("runs", sa.Integer()))
    op.add_column("tokens", sa.Column("gpu_seconds", sa.Double()))
    op.add_column("sessions", sa.Column("token", ID))
    op.add_column("submissions", sa.Column("token", ID))
    op.create_index("ix_submissions_token", "submissions", ["token"])
    op.create_table(
        "ledger", sa.Column("submission", ID, sa.ForeignKey("submissions.id"), primary_key=True),
        sa.Column("attempt", sa.Integer(), primary_key=True), sa.Column("person", ID, sa.ForeignKey("people.id"), nullable=False),
        sa.Column("token", ID), sa.Column("device", sa.String(16), nullable=False), sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False), sa.Column("at", TIME, nullable=False),
    )
    op.create_index("ix_ledger_person", "ledger", ["person", "at"])
    op.create_index("ix_ledger_token", "ledger", ["token"])


def downgrade() -> None:
    """Forget what attempts cost, and by which token they came."""
    op.drop_table("ledger")
    op.drop_index("ix_submissions_token", "submissions")
    op.drop_column("submissions", "token")
    op.drop_column("sessions", "token")
    for column in ("gpu_seconds", "runs", "agent"):
        op.drop_column("tokens", column)
