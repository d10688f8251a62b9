"""What the baseline took on each runner."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The numbers that runners are compared by; they begin with the next runs."""
    op.create_table(
        "baselines", sa.Column("version", sa.String(16), primary_key=True), sa.Column("device", sa.String(16), primary_key=True),
        sa.Column("runner", sa.String(80), primary_key=True), sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("us", sa.Double(), nullable=False), sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    )


def downgrade() -> None:
    """Forget them."""
    op.drop_table("baselines")
