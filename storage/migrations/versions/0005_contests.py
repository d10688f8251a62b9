"""Accounts elsewhere, bans, teams, contests and what belongs to them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Nobody is banned, and there are no contests yet."""
    _people()
    _teams_and_contests()
    _inside_a_contest()
    for name in ("replays", "gate_change", "heat"):
        op.add_column("submissions", sa.Column(name, ID))
    op.create_index("ix_submissions_gate_change", "submissions", ["gate_change"])
    op.create_index("ix_submissions_heat", "submissions", ["heat"])
    in_contest = sa.text("contest IS NOT NULL")
    op.create_index("ix_submissions_contest", "submissions", ["contest", "mode"], sqlite_where=in_contest, postgresql_where=in_contest)
    replays = sa.text("state = 'queued' AND replays IS NOT NULL")
    op.create_index("ix_submissions_replays", "submissions", ["device", "id"], sqlite_where=replays, postgresql_where=replays)


def downgrade() -> None:
    """Forget them. A round over OAuth that belongs to nobody yet is ended."""
    for name in ("replays", "contest", "heat", "gate_change"):
        op.drop_index(f"ix_submissions_{name}", "submissions")
    for name in ("heat", "gate_change", "replays"):
        op.drop_column("submissions", name)
    for name in ("heats", "appeals", "gate_changes", "notices", "registrations", "contest_problems", "invitations", "members", "contests",
                 "teams", "identities"):
        op.drop_table(name)
    op.execute("DELETE FROM sessions WHERE person IS NULL")
    with op.batch_alter_table("sessions") as sessions:
        sessions.drop_column("detail")
        sessions.alter_column("person", existing_type=ID, nullable=False)
    for name in ("deleted_at", "ban_reason", "banned_at"):
        op.drop_column("people", name)


def _people() -> None:
    op.add_column("people", sa.Column("banned_at", TIME))
    op.add_column("people", sa.Column("ban_reason", sa.String(300), nullable=False, server_default=""))
    op.add_column("people", sa.Column("deleted_at", TIME))
    with op.batch_alter_table("sessions") as sessions:
        sessions.add_column(sa.Column("detail", sa.JSON()))
        sessions.alter_column("person", existing_type=ID, nullable=True)
    op.create_table(
        "identities", sa.Column("id", ID, primary_key=True), _of("person", "people"), sa.Column("provider", sa.String(16), nullable=False),
        sa.Column("subject", sa.String(80), nullable=False), sa.Column("name", sa.String(80), nullable=False), _at("created_at"),
        sa.UniqueConstraint("provider", "subject"),
    )
    op.create_index("ix_identities_person", "identities", ["person"])


def _teams_and_contests() -> None:
    op.create_table("teams", sa.Column("id", ID, primary_key=True), sa.Column("name", sa.String(80), nullable=False, unique=True),
                    _of("owner", "people"), _at("created_at"), sa.Column("merged_into", ID))
    op.create_table("members", sa.Column("id", ID, primary_key=True), _of("team", "teams"), _of("person", "people"), _at("joined_at"),
                    sa.Column("left_at", TIME))
    op.create_index("ix_members_team", "members", ["team"])
    op.create_index("ix_members_person", "members", ["person"])
    op.create_table(
        "contests", sa.Column("id", ID, primary_key=True), sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("title", sa.String(200), nullable=False), _at("starts_at"), sa.Column("freezes_at", TIME), _at("ends_at"),
        sa.Column("by_team", sa.Boolean(), nullable=False), sa.Column("by_invitation", sa.Boolean(), nullable=False),
        sa.Column("sources", sa.String(8), nullable=False), sa.Column("quotas", sa.JSON(), nullable=False),
        sa.Column("gpu_seconds", sa.Double()), sa.Column("finalists", sa.Integer(), nullable=False),
        sa.Column("final_runs", sa.Integer(), nullable=False), sa.Column("made_by", ID, sa.ForeignKey("people.id")), _at("created_at"),
        sa.Column("revealed_at", TIME),
    )
    op.create_table(
        "contest_problems", sa.Column("contest", ID, sa.ForeignKey("contests.id"), primary_key=True),
        sa.Column("version", ID, sa.ForeignKey("problem_versions.id"), primary_key=True),
        sa.Column("device", sa.String(16), primary_key=True), sa.Column("position", sa.Integer(), nullable=False),
    )
    op.create_table(
        "invitations", sa.Column("id", ID, primary_key=True), sa.Column("team", ID, sa.ForeignKey("teams.id")),
        sa.Column("contest", ID, sa.ForeignKey("contests.id")), sa.Column("hash", sa.String(64), nullable=False, unique=True),
        _of("made_by", "people"), _at("created_at"), _at("expires_at"), sa.Column("used_at", TIME),
        sa.Column("used_by", ID, sa.ForeignKey("people.id")),
    )
    op.create_table(
        "registrations", sa.Column("contest", ID, sa.ForeignKey("contests.id"), primary_key=True),
        sa.Column("person", ID, sa.ForeignKey("people.id"), primary_key=True), sa.Column("team", ID, sa.ForeignKey("teams.id")),
        sa.Column("contact", sa.JSON(), nullable=False), _at("at"), sa.Column("withdrawn_at", TIME),
    )
    op.create_index("ix_registrations_team", "registrations", ["team"])


def _inside_a_contest() -> None:
    op.create_table(
        "notices", sa.Column("id", ID, primary_key=True), _of("contest", "contests"), _of("person", "people"),
        sa.Column("kind", sa.String(16), nullable=False), sa.Column("text", sa.String(2000), nullable=False), _at("at"),
        sa.Column("answer", sa.String(2000)), sa.Column("answered_at", TIME), sa.Column("public", sa.Boolean(), nullable=False),
    )
    op.create_index("ix_notices_contest", "notices", ["contest"])
    op.create_table(
        "gate_changes", sa.Column("id", ID, primary_key=True), _of("contest", "contests"), _of("version", "problem_versions"),
        sa.Column("reason", sa.String(500), nullable=False), sa.Column("top", sa.Integer(), nullable=False), _of("made_by", "people"),
        _at("created_at"), sa.Column("applied_at", TIME), sa.Column("withdrawn_at", TIME), sa.Column("result", sa.JSON()),
    )
    op.create_index("ix_gate_changes_contest", "gate_changes", ["contest"])
    op.create_table(
        "appeals", sa.Column("id", ID, primary_key=True), _of("submission", "submissions"), _of("person", "people"),
        sa.Column("text", sa.String(2000), nullable=False), _at("at"), sa.Column("answer", sa.String(2000)),
        sa.Column("granted", sa.Boolean()), sa.Column("answered_at", TIME),
    )
    op.create_index("ix_appeals_submission", "appeals", ["submission"])
    op.create_table(
        "heats", sa.Column("id", ID, primary_key=True), _of("contest", "contests"), _of("version", "problem_versions"),
        sa.Column("device", sa.String(16), nullable=False), sa.Column("runner", sa.String(80)),
        sa.Column("runs", sa.Integer(), nullable=False), _of("made_by", "people"), _at("created_at"),
    )
    op.create_index("ix_heats_contest", "heats", ["contest"])


def _of(name: str, table: str) -> sa.Column[int]:
    return sa.Column(name, ID, sa.ForeignKey(f"{table}.id"), nullable=False)


def _at(name: str) -> sa.Column[object]:
    return sa.Column(name, TIME, nullable=False)
