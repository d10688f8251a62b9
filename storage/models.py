"""The tables of people, problems, submissions and runners. Times are aware UTC; JSON columns hold what `core` types dump."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, Integer, String, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from kernelderby.storage.base import COMPETES, DUEL_OPEN, IN_CONTEST, LEASED, QUEUED, REPLAYS_QUEUED, WAITING, Base, BigId, only


class Person(Base):
    """Someone, or an agent with its owner, who may submit."""

    __tablename__ = "people"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)
    role: Mapped[str] = mapped_column(String(16), default="contestant")   # contestant, organizer, admin
    created_at: Mapped[datetime]
    banned_at: Mapped[datetime | None]
    ban_reason: Mapped[str] = mapped_column(String(300), default="")
    deleted_at: Mapped[datetime | None]                                   # their own wish: the name is gone, entries stay without it


class Identity(Base):
    """An account at GitHub or Discord that logs a person in."""

    __tablename__ = "identities"
    __table_args__ = (UniqueConstraint("provider", "subject"),)
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    person: Mapped[int] = mapped_column(ForeignKey("people.id"), index=True)
    provider: Mapped[str] = mapped_column(String(16))                     # github, discord
    subject: Mapped[str] = mapped_column(String(80))                      # the account's number there, which outlives its name
    name: Mapped[str] = mapped_column(String(80))
    created_at: Mapped[datetime]


class Token(Base):
    """A bearer token: shown once, kept as a hash."""

    __tablename__ = "tokens"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    person: Mapped[int] = mapped_column(ForeignKey("people.id"), index=True)
    name: Mapped[str] = mapped_column(String(80))
    hash: Mapped[str] = mapped_column(String(64), unique=True)            # SHA-256 in hex
    scopes: Mapped[list[str]]                                             # submit, read, organize
    created_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    agent: Mapped[bool] = mapped_column(default=False)                    # an agent's, which is named beside its person
    runs: Mapped[int | None] = mapped_column(Integer)                     # an agent's budget over its life; None: no limit
    gpu_seconds: Mapped[float | None]


class WebSession(Base):
    """A browser's login, or something that can be used once: a login code, a code that links an account, a round over OAuth."""

    __tablename__ = "sessions"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    person: Mapped[int | None] = mapped_column(ForeignKey("people.id"), index=True)   # None: an OAuth round of someone not known yet
    kind: Mapped[str] = mapped_column(String(8))                          # code, cookie, link, oauth
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    token: Mapped[int | None] = mapped_column(BigId)                      # tokens.id it was opened by: it may do no more, and ends with it
    detail: Mapped[dict[str, Any] | None] = mapped_column(JSON)           # of an OAuth round: provider, verifier, where to go on
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]


class ProblemRow(Base):
    """A problem's name and its current version."""

    __tablename__ = "problems"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    title: Mapped[str] = mapped_column(String(200))
    family: Mapped[str] = mapped_column(String(64))
    current: Mapped[int | None] = mapped_column(BigId)                     # problem_versions.id
    position: Mapped[int] = mapped_column(Integer, default=0)


class ProblemVersion(Base):
    """One version of a problem: never changed, its gate set may be."""

    __tablename__ = "problem_versions"
    __table_args__ = (UniqueConstraint("problem", "hash", "gate_set"),)
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    problem: Mapped[int] = mapped_column(ForeignKey("problems.id"), index=True)
    hash: Mapped[str] = mapped_column(String(16), index=True)
    gate_set: Mapped[str] = mapped_column(String(16))
    archive: Mapped[str] = mapped_column(String(64))                       # artifact key
    devices: Mapped[list[str]]                                             # classes it has cases for
    min_effect: Mapped[float]                                              # gaps below this share are ties
    created_at: Mapped[datetime]
    closes_at: Mapped[datetime | None]                                     # of the practice board
    open: Mapped[bool] = mapped_column(default=True)


class Submission(Base):
    """One file for one problem version on one device class in one mode."""

    __tablename__ = "submissions"
    __table_args__ = (
        Index("ix_submissions_queue", "device", "person", "id", **only(QUEUED)),
        Index("ix_submissions_leases", "lease_until", **only(LEASED)),
        Index("ix_submissions_board", "version", "device", "score_us", **only(COMPETES)),
        Index("ix_submissions_quota", "person", "mode", "created_at"),
        Index("ix_submissions_token", "token"),
        Index("ix_submissions_contest", "contest", "mode", **only(IN_CONTEST)),
        Index("ix_submissions_replays", "device", "id", **only(REPLAYS_QUEUED)),
        UniqueConstraint("person", "idempotency_key"),
    )
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    person: Mapped[int] = mapped_column(ForeignKey("people.id"), index=True)
    team: Mapped[int | None] = mapped_column(BigId)
    contest: Mapped[int | None] = mapped_column(BigId)
    version: Mapped[int] = mapped_column(ForeignKey("problem_versions.id"))
    device: Mapped[str] = mapped_column(String(16))
    mode: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16))
    file_name: Mapped[str] = mapped_column(String(120))
    source_sha: Mapped[str] = mapped_column(String(64))
    licence: Mapped[str] = mapped_column(String(80))
    ai_use: Mapped[str] = mapped_column(String(300))
    door: Mapped[str] = mapped_column(String(8))
    idempotency_key: Mapped[str | None] = mapped_column(String(200))
    request_hash: Mapped[str | None] = mapped_column(String(64))
    language: Mapped[str] = mapped_column(String(8), default="torch")      # triton, torch, cuda
    created_at: Mapped[datetime]
    queued_at: Mapped[datetime]                                            # of its last queueing
    claimed_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    lease_until: Mapped[datetime | None]                                   # null unless building or running
    attempt: Mapped[int] = mapped_column(Integer, default=0)               # 0: never claimed; the fencing number
    losses: Mapped[int] = mapped_column(Integer, default=0)                # attempts lost since it was sent or rejudged
    box_losses: Mapped[int] = mapped_column(Integer, default=0)            # of these, lost while the contestant's box lived
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    last_seq: Mapped[int] = mapped_column(Integer, default=0)              # of its events
    outcome: Mapped[str | None] = mapped_column(String(20))                # of its last finished attempt
    score_us: Mapped[float | None]
    score_low_us: Mapped[float | None]                                     # 95 % interval of the score
    score_high_us: Mapped[float | None]
    speedup: Mapped[float | None]
    competes: Mapped[bool] = mapped_column(default=False)                  # ranked, accepted, and of a kind that ranks
    entry_sha: Mapped[str] = mapped_column(String(64), default="")         # of the source but for line ends: one entry, however often sent
    bound_share: Mapped[float] = mapped_column(default=0.0)                # what its runner's certificate leaves to forgery
    token: Mapped[int | None] = mapped_column(BigId)                       # tokens.id it came by; None: a login
    replays: Mapped[int | None] = mapped_column(BigId)                     # submissions.id: an organizers' run of that one, no entry
    gate_change: Mapped[int | None] = mapped_column(BigId, index=True)     # it tries for
    heat: Mapped[int | None] = mapped_column(BigId, index=True)            # it is a run of


class DuelRow(Base):
    """Two entries against each other: asked for by a person, or a head-to-head before a board's crown moves."""

    __tablename__ = "duels"
    __table_args__ = (
        Index("ix_duels_open", "device", "id", **only(DUEL_OPEN)),
        Index("ix_duels_asked", "person", "created_at"),
    )
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    a: Mapped[int] = mapped_column(ForeignKey("submissions.id"), index=True)
    b: Mapped[int] = mapped_column(ForeignKey("submissions.id"), index=True)
    board: Mapped[int | None] = mapped_column(ForeignKey("boards.id"))     # whose crown a wants; None: a person asked
    person: Mapped[int | None] = mapped_column(ForeignKey("people.id"))    # who asked
    device: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16))                         # queued, running, done
    attempt: Mapped[int] = mapped_column(Integer, default=0)               # the fencing number
    losses: Mapped[int] = mapped_column(Integer, default=0)                # attempts that were lost, or void
    lease_until: Mapped[datetime | None]
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    ratio: Mapped[float | None]                                            # a's score over b's, of a duel that was decided
    ratio_low: Mapped[float | None]
    ratio_high: Mapped[float | None]
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON)


class Attempt(Base):
    """One try at judging a submission."""

    __tablename__ = "attempts"
    submission: Mapped[int] = mapped_column(ForeignKey("submissions.id"), primary_key=True)
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    runner: Mapped[str] = mapped_column(String(80))
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    outcome: Mapped[str | None] = mapped_column(String(20))                # None: lost
    gate: Mapped[str | None] = mapped_column(String(20))
    verdict: Mapped[dict[str, Any] | None] = mapped_column(JSON)


class LedgerRow(Base):
    """What an attempt cost its person: written with its end, never changed or taken back."""

    __tablename__ = "ledger"
    __table_args__ = (Index("ix_ledger_person", "person", "at"), Index("ix_ledger_token", "token"))
    submission: Mapped[int] = mapped_column(ForeignKey("submissions.id"), primary_key=True)
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    person: Mapped[int] = mapped_column(ForeignKey("people.id"))
    token: Mapped[int | None] = mapped_column(BigId)
    device: Mapped[str] = mapped_column(String(16))
    mode: Mapped[str] = mapped_column(String(16))
    seconds: Mapped[float]                                                 # of the device; 0 where it was our own failure
    at: Mapped[datetime]


class EventRow(Base):
    """A step of a submission's life. `seq` counts within the submission."""

    __tablename__ = "events"
    submission: Mapped[int] = mapped_column(ForeignKey("submissions.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True)
    at: Mapped[datetime]
    kind: Mapped[str] = mapped_column(String(16))                          # state build check time log verdict
    data: Mapped[dict[str, Any]] = mapped_column(JSON)


class Turn(Base):
    """When a person was last served on a device class: the fair share."""

    __tablename__ = "turns"
    __table_args__ = (
        Index("ix_turns_next", "device", "served_at", "person", **only(WAITING)),
    )
    person: Mapped[int] = mapped_column(ForeignKey("people.id"), primary_key=True)
    device: Mapped[str] = mapped_column(String(16), primary_key=True)
    served_at: Mapped[datetime]
    gpu_seconds: Mapped[float] = mapped_column(default=0.0)                # from claim to verdict; what is charged: `ledger`
    queued: Mapped[int] = mapped_column(Integer, default=0)


class Board(Base):
    """A ranking: one problem version on one device class, in a contest or (null) in practice."""

    __tablename__ = "boards"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    contest: Mapped[int | None] = mapped_column(BigId)
    version: Mapped[int] = mapped_column(ForeignKey("problem_versions.id"))   # the first row with that hash: gate sets share a board
    device: Mapped[str] = mapped_column(String(16))
    leader: Mapped[int | None] = mapped_column(BigId)                      # submissions.id
    __table_args__ = (Index("uq_boards_place", func.coalesce(contest, 0), "version", "device", unique=True),)   # nulls would be distinct


class Baseline(Base):
    """What the honest baseline took in one run: of each runner on a board its first and its newest, from which its factor comes."""

    __tablename__ = "baselines"
    version: Mapped[str] = mapped_column(String(16), primary_key=True)     # the hash: gate sets share a board
    device: Mapped[str] = mapped_column(String(16), primary_key=True)
    runner: Mapped[str] = mapped_column(String(80), primary_key=True)      # its GPU's UUID, which outlives a worker
    number: Mapped[int] = mapped_column(Integer, primary_key=True)         # counts from 1 within the runner and board
    us: Mapped[float]                                                      # geometric mean over cases of medians
    at: Mapped[datetime]


class Runner(Base):
    """A worker that was seen."""

    __tablename__ = "runners"
    name: Mapped[str] = mapped_column(String(80), primary_key=True)
    device: Mapped[str] = mapped_column(String(16))
    seen_at: Mapped[datetime]
    environment: Mapped[dict[str, Any]] = mapped_column(JSON)


class Audit(Base):
    """Who did what: log-ins, tokens, problems added, cancels, rejudges."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    at: Mapped[datetime]
    person: Mapped[int | None] = mapped_column(BigId)
    action: Mapped[str] = mapped_column(String(40))
    detail: Mapped[dict[str, Any]] = mapped_column(JSON)
