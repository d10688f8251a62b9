"""What a change of gates does to each entry, as organizers read it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelderby.core.verdict import Outcome, State
from kernelderby.storage import boards, people, problems, replays
from kernelderby.storage.contest_models import GateChange
from kernelderby.storage.models import Attempt, Person, ProblemRow, ProblemVersion, Submission, Token

Rank = tuple[int, int] | None


@dataclass(frozen=True, kw_only=True)
class Fate:
    """One entry before a change and after it."""

    submission: int
    replay: int                   # the organizers' run of it under the new gates
    person: str
    agent: str | None
    device: str
    score_us: float | None        # before
    rank_before: Rank             # None: a better entry of theirs stands on the board
    rank_after: Rank              # None: it drops, or a better entry of theirs stays
    state: State                  # of the replay
    outcome: Outcome | None       # of the replay
    gate: str | None
    message: str | None           # for organizers
    stands: bool | None           # it would still be accepted; None: not known yet
    now: str = ""                 # once applied, the entry's own state or outcome since

    @property
    def who(self) -> str:
        """Whose entry it is, as a door shows it."""
        return people.shown(self.person, self.agent)


@dataclass(frozen=True, kw_only=True)
class ChangeView:
    """A change of gates."""

    id: int
    contest_id: int
    problem: str
    version: str
    gate_set: str                 # the new one
    reason: str
    top: int
    made_by: str
    created_at: datetime
    applied_at: datetime | None
    withdrawn_at: datetime | None
    entries: list[Fate]           # fastest first, board by board; once applied as they were then
    unjudged: list[int]           # come up into the first `top` for those that drop, and were never judged by these gates

    @property
    def is_complete(self) -> bool:
        """Whether each entry was judged under the new gates."""
        return all(fate.stands is not None for fate in self.entries)

    @property
    def devices(self) -> list[str]:
        """The device classes it has runs on."""
        return sorted({fate.device for fate in self.entries})


def view_of(session: Session, row: GateChange) -> ChangeView:
    """A change as it is now."""
    version = session.get_one(ProblemVersion, row.version)
    entries = _as_applied(session, row.result) if row.result else preview_of(session, row)
    return ChangeView(
        id=row.id, contest_id=row.contest, problem=session.get_one(ProblemRow, version.problem).name, version=version.hash,
        gate_set=version.gate_set, reason=row.reason, top=row.top, made_by=session.get_one(Person, row.made_by).name,
        created_at=row.created_at, applied_at=row.applied_at, withdrawn_at=row.withdrawn_at,
        entries=entries, unjudged=_unjudged(session, row, version, entries))


def preview_of(session: Session, row: GateChange) -> list[Fate]:
    """What each run says, and what the boards would be without those that fall."""
    played = replays.played(session, Submission.gate_change == row.id)
    problem = session.get_one(ProblemRow, session.get_one(ProblemVersion, row.version).problem).name
    gone = _twins(session, row, [run.replays for run, _ in played if _stands(run) is False])
    places = sorted({run.device for run, _ in played})
    before = {d: _ranks(session, problem, d, row.contest, frozenset()) for d in places}
    after = {d: _ranks(session, problem, d, row.contest, gone) for d in places}
    names = _names(session, [run.replays for run, _ in played])
    return [_fate(run, attempt, names[run.replays or 0], before[run.device], after[run.device]) for run, attempt in played]


def _unjudged(session: Session, row: GateChange, version: ProblemVersion, entries: list[Fate]) -> list[int]:
    if row.withdrawn_at is not None:
        return []
    gone = _twins(session, row, [fate.submission for fate in entries if fate.stands is False]) if row.applied_at is None else frozenset()
    problem, tried = session.get_one(ProblemRow, version.problem).name, {fate.submission for fate in entries if row.applied_at is None}
    boards_now = [boards.board(session, problem, device, row.contest, without=gone) for device in sorted({f.device for f in entries})]
    return [r.submission for board in boards_now for r in board.rows[: row.top]
            if r.gate_set != version.gate_set and r.submission not in tried]


def _fate(run: Submission, attempt: Attempt | None, named: tuple[Submission, str, str | None], before: Mapping[int, Rank],
          after: Mapping[int, Rank]) -> Fate:
    entry, person, agent = named
    verdict = attempt.verdict if attempt and run.state == State.DONE and attempt.verdict else {}
    return Fate(
        submission=entry.id, replay=run.id, person=person, agent=agent, device=run.device, score_us=entry.score_us,
        rank_before=before.get(entry.id), rank_after=None if _stands(run) is False else after.get(entry.id), state=State(run.state),
        outcome=Outcome(run.outcome) if run.outcome else None, gate=verdict.get("gate"), message=verdict.get("message"),
        stands=_stands(run))


def _stands(run: Submission) -> bool | None:
    return run.outcome == Outcome.ACCEPTED if replays.says_something(run) else None


def _ranks(session: Session, problem: str, device: str, contest: int, without: frozenset[int]) -> dict[int, Rank]:
    board = boards.board(session, problem, device, contest, without=without)
    return {row.submission: row.rank for row in board.rows}


def _twins(session: Session, row: GateChange, entries: Iterable[int | None]) -> frozenset[int]:
    """These entries, and whatever else of the same person has the same source."""
    return frozenset(session.scalars(replays.twins(Submission.id.in_(list(entries))).where(
        Submission.contest == row.contest, Submission.version.in_(problems.gate_sets(row.version)))))


def _names(session: Session, entries: Iterable[int | None]) -> dict[int, tuple[Submission, str, str | None]]:
    found = session.execute(
        select(Submission, Person.name, Token.name).join(Person, Person.id == Submission.person)
        .outerjoin(Token, (Token.id == Submission.token) & Token.agent).where(Submission.id.in_(list(entries))))
    return {row.id: (row, person, agent) for row, person, agent in found}


def _as_applied(session: Session, result: Mapping[str, Any]) -> list[Fate]:
    kept = [Fate(**{**fate, "state": State(fate["state"]), "outcome": Outcome(fate["outcome"]) if fate["outcome"] else None,
                    **{key: tuple(fate[key]) if fate[key] else None for key in ("rank_before", "rank_after")}})
            for fate in result["entries"]]
    now = {number: outcome or state for number, state, outcome in session.execute(
        select(Submission.id, Submission.state, Submission.outcome).where(Submission.id.in_([fate.submission for fate in kept])))}
    return [replace(fate, now=str(now.get(fate.submission, ""))) for fate in kept]
