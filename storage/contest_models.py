"""The tables of teams and contests."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from kernelderby.storage.base import Base, BigId


class Team(Base):
    """People who compete together."""

    __tablename__ = "teams"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)
    owner: Mapped[int] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime]
    merged_into: Mapped[int | None] = mapped_column(BigId)                # teams.id: this one is no more


class Member(Base):
    """Who is, or was, in a team."""

    __tablename__ = "members"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    team: Mapped[int] = mapped_column(ForeignKey("teams.id"), index=True)
    person: Mapped[int] = mapped_column(ForeignKey("people.id"), index=True)
    joined_at: Mapped[datetime]
    left_at: Mapped[datetime | None]


class Invitation(Base):
    """A code that opens a team, or a closed contest, once."""

    __tablename__ = "invitations"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    team: Mapped[int | None] = mapped_column(ForeignKey("teams.id"))
    contest: Mapped[int | None] = mapped_column(ForeignKey("contests.id"))
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    made_by: Mapped[int] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]
    used_by: Mapped[int | None] = mapped_column(ForeignKey("people.id"))


class Contest(Base):
    """Problems, a time, and rules of its own. What stage it is at follows from the times."""

    __tablename__ = "contests"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    title: Mapped[str] = mapped_column(String(200))
    starts_at: Mapped[datetime]
    freezes_at: Mapped[datetime | None]                                   # from then on contestants see the board as it was
    ends_at: Mapped[datetime]
    by_team: Mapped[bool] = mapped_column(default=False)                  # quotas and ranks are a team's
    by_invitation: Mapped[bool] = mapped_column(default=False)
    sources: Mapped[str] = mapped_column(String(8), default="owner")      # who may read sources after the reveal: owner, public
    quotas: Mapped[dict[str, Any]] = mapped_column(JSON)                  # by mode: {"runs": int | None, "gpu_seconds": float | None}
    gpu_seconds: Mapped[float | None]                                     # hard cap of the whole contest
    finalists: Mapped[int] = mapped_column(Integer, default=5)            # of the final heat
    final_runs: Mapped[int] = mapped_column(Integer, default=5)           # of each finalist
    made_by: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime]
    revealed_at: Mapped[datetime | None]                                  # the final order and the seeds are public since


class ContestProblem(Base):
    """One problem version on one device class in a contest: one board."""

    __tablename__ = "contest_problems"
    contest: Mapped[int] = mapped_column(ForeignKey("contests.id"), primary_key=True)
    version: Mapped[int] = mapped_column(ForeignKey("problem_versions.id"), primary_key=True)
    device: Mapped[str] = mapped_column(String(16), primary_key=True)
    position: Mapped[int] = mapped_column(Integer)


class Registration(Base):
    """Someone's place in a contest, with what a prize needs."""

    __tablename__ = "registrations"
    contest: Mapped[int] = mapped_column(ForeignKey("contests.id"), primary_key=True)
    person: Mapped[int] = mapped_column(ForeignKey("people.id"), primary_key=True)
    team: Mapped[int | None] = mapped_column(ForeignKey("teams.id"), index=True)
    contact: Mapped[dict[str, Any]] = mapped_column(JSON)                 # real name, e-mail, country: for prizes, never shown
    at: Mapped[datetime]
    withdrawn_at: Mapped[datetime | None]


class Notice(Base):
    """An announcement, or a question to the organizers with its answer."""

    __tablename__ = "notices"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    contest: Mapped[int] = mapped_column(ForeignKey("contests.id"), index=True)
    person: Mapped[int] = mapped_column(ForeignKey("people.id"))
    kind: Mapped[str] = mapped_column(String(16))                         # announcement, question
    text: Mapped[str] = mapped_column(String(2000))
    at: Mapped[datetime]
    answer: Mapped[str | None] = mapped_column(String(2000))
    answered_at: Mapped[datetime | None]
    public: Mapped[bool] = mapped_column(default=False)                   # a question is its asker's until the answer is published


class GateChange(Base):
    """A new gate set of a contest's problem version, tried on the best entries before it is applied."""

    __tablename__ = "gate_changes"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    contest: Mapped[int] = mapped_column(ForeignKey("contests.id"), index=True)
    version: Mapped[int] = mapped_column(ForeignKey("problem_versions.id"))   # the row with the new gate set
    reason: Mapped[str] = mapped_column(String(500))
    top: Mapped[int] = mapped_column(Integer)                             # so many entries of each board are judged again
    made_by: Mapped[int] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime]
    applied_at: Mapped[datetime | None]
    withdrawn_at: Mapped[datetime | None]
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON)           # the preview, as it was when it was applied


class Appeal(Base):
    """What someone holds against an entry's fall, and what the organizers say."""

    __tablename__ = "appeals"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    submission: Mapped[int] = mapped_column(ForeignKey("submissions.id"), index=True)
    person: Mapped[int] = mapped_column(ForeignKey("people.id"))
    text: Mapped[str] = mapped_column(String(2000))
    at: Mapped[datetime]
    answer: Mapped[str | None] = mapped_column(String(2000))
    granted: Mapped[bool | None]
    answered_at: Mapped[datetime | None]


class Heat(Base):
    """Equal fresh runs of a board's finalists, all on one runner."""

    __tablename__ = "heats"
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    contest: Mapped[int] = mapped_column(ForeignKey("contests.id"), index=True)
    version: Mapped[int] = mapped_column(ForeignKey("problem_versions.id"))
    device: Mapped[str] = mapped_column(String(16))
    runner: Mapped[str | None] = mapped_column(String(80))                # whoever claims its first run plays them all
    runs: Mapped[int] = mapped_column(Integer)                            # of each finalist
    made_by: Mapped[int] = mapped_column(ForeignKey("people.id"))
    created_at: Mapped[datetime]
