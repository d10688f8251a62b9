"""The first tables."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)
TABLES = ("people", "tokens", "sessions", "problems", "problem_versions", "submissions", "attempts", "events", "turns", "runners", "boards",
          "audit")


def upgrade() -> None:
    """People, problems, submissions and their runs, boards."""
    _people()
    _problems()
    _submissions()
    _runs()
    _boards()


def downgrade() -> None:
    """Drop every table, those that refer to others first."""
    for name in reversed(TABLES):
        op.drop_table(name)


def _people() -> None:
    op.create_table("people", _id(), _text("name", 80, unique=True), _text("role", 16), _column("created_at", TIME))
    op.create_table(
        "tokens", _id(), _column("person", ID, "people", index=True), _text("name", 80), _text("hash", 64, unique=True),
        _column("scopes", sa.JSON()), _column("created_at", TIME), _maybe("revoked_at", TIME),
    )
    op.create_table(
        "sessions", _id(), _column("person", ID, "people", index=True), _text("kind", 8), _text("hash", 64, unique=True),
        _column("created_at", TIME), _column("expires_at", TIME), _maybe("revoked_at", TIME),
    )


def _problems() -> None:
    op.create_table(
        "problems", _id(), _text("name", 64, unique=True), _text("title", 200), _text("family", 64), _maybe("current", ID),
        _column("position", sa.Integer()),
    )
    op.create_table(
        "problem_versions", _id(), _column("problem", ID, "problems", index=True), _text("hash", 16, index=True), _text("gate_set", 16),
        _text("archive", 64), _column("devices", sa.JSON()), _column("min_effect", sa.Double()), _column("created_at", TIME),
        _maybe("closes_at", TIME), _column("open", sa.Boolean()), sa.UniqueConstraint("problem", "hash", "gate_set"),
    )


def _submissions() -> None:
    op.create_table(
        "submissions", _id(), _column("person", ID, "people", index=True), _maybe("team", ID), _maybe("contest", ID),
        _column("version", ID, "problem_versions"), _text("device", 16), _text("mode", 16), _text("state", 16), _text("file_name", 120),
        _text("source_sha", 64), _text("licence", 80), _text("ai_use", 300), _text("door", 8), _maybe("idempotency_key", sa.String(200)),
        _maybe("request_hash", sa.String(64)), _text("language", 8), _column("created_at", TIME), _column("queued_at", TIME),
        _maybe("claimed_at", TIME), _maybe("finished_at", TIME), _maybe("lease_until", TIME), _column("attempt", sa.Integer()),
        _column("losses", sa.Integer()), _column("box_losses", sa.Integer()), _column("cancel_requested", sa.Boolean()),
        _column("last_seq", sa.Integer()), _maybe("outcome", sa.String(20)), _maybe("score_us", sa.Double()),
        _maybe("score_low_us", sa.Double()), _maybe("score_high_us", sa.Double()), _maybe("speedup", sa.Double()),
        _column("competes", sa.Boolean()), sa.UniqueConstraint("person", "idempotency_key"),
    )
    _index("ix_submissions_queue", "submissions", ["device", "person", "id"], "state = 'queued'")
    _index("ix_submissions_leases", "submissions", ["lease_until"], "lease_until IS NOT NULL")
    _index("ix_submissions_board", "submissions", ["version", "device", "score_us"], "competes IS TRUE")
    op.create_index("ix_submissions_quota", "submissions", ["person", "mode", "created_at"])


def _runs() -> None:
    op.create_table(
        "attempts", _column("submission", ID, "submissions", primary_key=True), _column("attempt", sa.Integer(), primary_key=True),
        _text("runner", 80), _column("started_at", TIME), _maybe("finished_at", TIME), _maybe("outcome", sa.String(20)),
        _maybe("gate", sa.String(20)), _maybe("verdict", sa.JSON()),
    )
    op.create_table(
        "events", _column("submission", ID, "submissions", primary_key=True), _column("seq", sa.Integer(), primary_key=True),
        _column("at", TIME), _text("kind", 16), _column("data", sa.JSON()),
    )
    op.create_table(
        "turns", _column("person", ID, "people", primary_key=True), _text("device", 16, primary_key=True), _column("served_at", TIME),
        _column("gpu_seconds", sa.Double()), _column("queued", sa.Integer()),
    )
    _index("ix_turns_next", "turns", ["device", "served_at", "person"], "queued > 0")
    op.create_table(
        "runners", _text("name", 80, primary_key=True), _text("device", 16), _column("seen_at", TIME), _column("environment", sa.JSON()),
    )


def _boards() -> None:
    op.create_table(
        "boards", _id(), _maybe("contest", ID), _column("version", ID, "problem_versions"), _text("device", 16), _maybe("leader", ID),
    )
    op.create_index("uq_boards_place", "boards", [sa.text("coalesce(contest, 0)"), "version", "device"], unique=True)
    op.create_table(
        "audit", _id(), _column("at", TIME), _maybe("person", ID), _text("action", 40), _column("detail", sa.JSON()),
    )


def _id() -> sa.Column[Any]:
    return sa.Column("id", ID, primary_key=True)


def _column(name: str, kind: Any, refers_to: str | None = None, **options: Any) -> sa.Column[Any]:
    key = [sa.ForeignKey(f"{refers_to}.id")] if refers_to else []
    return sa.Column(name, kind, *key, nullable=False, **options)


def _text(name: str, length: int, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.String(length), nullable=False, **options)


def _maybe(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


def _index(name: str, table: str, columns: list[str], condition: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(condition), postgresql_where=sa.text(condition))
