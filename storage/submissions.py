"""Submissions as their readers see them, and what doors may change: a new one, a cancel, a rejudge."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, case, func, literal, or_, select, text
from sqlalchemy.orm import Session

from kernelderby.core.errors import NotFound
from kernelderby.core.verdict import Mode, Outcome, State, Verdict
from kernelderby.storage import boards, claims, people, problems
from kernelderby.storage.base import QUEUED, REPLAYS_QUEUED, WAITING
from kernelderby.storage.contest_models import Contest, ContestProblem
from kernelderby.storage.models import Attempt, Person, ProblemRow, ProblemVersion, Submission, Token, Turn

_Found = Row[Submission, str, ProblemRow, ProblemVersion, dict[str, Any] | None, str | None, Contest | None]


@dataclass(frozen=True, kw_only=True)
class SubmissionView:
    """One submission, with all that a door shows."""

    id: int
    person_id: int
    person: str
    problem: str
    problem_title: str
    version: str
    gate_set: str
    device: str
    mode: Mode
    state: State
    file_name: str
    source_sha: str
    language: str                 # triton, torch, cuda
    licence: str
    ai_use: str
    door: str
    created_at: datetime
    claimed_at: datetime | None
    finished_at: datetime | None
    attempt: int                  # 0: never claimed
    cancel_requested: bool
    outcome: Outcome | None       # None until done
    verdict: Verdict | None       # None until done
    position: int | None = None   # in the queue, 1 is next; None where it does not wait, and in listings
    agent: str | None = None      # the name of the agent's token it came by; None: its person sent it
    contest_id: int | None = None
    contest: str | None = None    # its name; None: practice
    replays: int | None = None    # an organizers' run of that submission, no entry
    open_source: bool = False     # its contest lets everybody read it, now that it is revealed

    @property
    def who(self) -> str:
        """Who sent it, as a door shows it."""
        return people.shown(self.person, self.agent)

    def as_verdict(self) -> Verdict:
        """The verdict; before it is there, the same form with the outcome open."""
        return self.verdict or Verdict(submission=self.id, problem=self.problem, version=self.version, device=self.device,
                                       mode=self.mode, state=self.state, attempt=max(1, self.attempt))


@dataclass(frozen=True, kw_only=True)
class NewSubmission:
    """What an admitted request becomes."""

    person: int
    version: int                  # problem_versions.id
    device: str
    mode: Mode
    file_name: str
    source_sha: str
    language: str
    licence: str
    ai_use: str
    door: str
    contest: int | None = None
    team: int | None = None       # teams.id it was sent for
    token: int | None = None      # tokens.id it came by
    entry_sha: str = ""           # of the source but for line ends; "": of its bytes
    idempotency_key: str | None = None
    request_hash: str | None = None


def insert(session: Session, new: NewSubmission, now: datetime) -> int:
    """A queued submission, counted in its person's turn, with its first event; its number."""
    entry = {"entry_sha": new.entry_sha or new.source_sha}
    row = Submission(**asdict(new) | entry, state=State.QUEUED, created_at=now, queued_at=now, attempt=0, losses=0, box_losses=0,
                     last_seq=0, cancel_requested=False, competes=False)
    session.add(row)
    session.flush()
    claims.requeue(session, row, "")
    return row.id


def cancel(session: Session, submission_id: int) -> SubmissionView:
    """End a submission that nobody works on at once; ask the worker to end one that runs; leave a finished one. Raises NotFound."""
    row = _locked(session, submission_id)
    abandoned = row.lease_until is not None and row.lease_until < datetime.now(UTC)
    if row.state == State.QUEUED or (row.state != State.DONE and abandoned):
        claims.end_cancelled(session, row, "Cancelled before it ran." if row.state == State.QUEUED else "Cancelled.")
    elif row.state != State.DONE:
        row.cancel_requested = True
        session.flush()
    return view(session, submission_id)


def rejudge(session: Session, submission_id: int) -> SubmissionView:
    """Queue a finished submission again, by the gate set of its contest, in practice by the newest; its outcome is open until then.

    One that is not finished stays as it is. Raises NotFound.
    """
    rejudge_all(session, [_locked(session, submission_id)], "An organizer asked for it.")
    return view(session, submission_id)


def rejudge_all(session: Session, rows: Sequence[Submission], reason: str) -> None:
    """`rejudge`, of several rows of one board that are locked; those who read them read the reason."""
    left = [row for row in rows if row.state == State.DONE and _reopen(session, row, reason)]
    if left:                                           # once, after all turns: whoever ends a run takes a turn and then the board
        boards.follow(session, left[0])


def view(session: Session, submission_id: int) -> SubmissionView:
    """One submission with its place in the queue. Raises NotFound."""
    found = session.execute(_rows().where(Submission.id == submission_id)).first()
    if found is None:
        raise NotFound(f"There is no submission {submission_id}.")
    row = found[0]
    return _view(found, _place_of(session, row) if row.state == State.QUEUED else None)


def verdict_json(session: Session, submission_id: int) -> dict[str, Any] | None:
    """The verdict as it was written, value for value what was signed; None before the end. Raises NotFound."""
    row = view(session, submission_id)
    found = session.get(Attempt, (submission_id, row.attempt)) if row.outcome else None
    return found.verdict if found else None


def recent(
    session: Session, *, person: int | None = None, problem: str | None = None, limit: int = 50, before: int | None = None,
    leave_out: ColumnElement[bool] | None = None
) -> list[SubmissionView]:
    """The newest submissions of a person, of a problem, or of all, below the number `before`."""
    query = _rows().where(Submission.replays.is_(None)).order_by(Submission.id.desc()).limit(limit)
    if leave_out is not None:
        query = query.where(~leave_out)
    if person is not None:
        query = query.where(Submission.person == person)
    if problem is not None:
        query = query.where(ProblemRow.name == problem)
    if before is not None:
        query = query.where(Submission.id < before)
    return [_view(found) for found in session.execute(query)]


def position(session: Session, person: int, device: str, submission_id: int) -> int:
    """How many turns until a queued submission is claimed (1: next), if nobody sends anything more."""
    own = session.scalar(
        select(func.count()).select_from(Submission).where(
            text(QUEUED), Submission.device == device, Submission.person == person, Submission.id <= submission_id,
            Submission.replays.is_(None))
    ) or 0
    served = session.scalar(select(Turn.served_at).where(Turn.person == person, Turn.device == device))
    if served is None:
        return max(own, 1)
    goes_first = (Turn.served_at < served) | ((Turn.served_at == served) & (Turn.person < person))
    before = case((goes_first, literal(own)), else_=literal(own - 1))
    others = session.scalar(
        select(func.sum(case((Turn.queued < before, Turn.queued), else_=before))).where(
            text(WAITING), Turn.device == device, Turn.person != person)
    )
    return max(own, 1) + int(others or 0) + _replays_before(session, device, submission_id)


def _place_of(session: Session, row: Submission) -> int:
    if row.replays is not None:
        return 1 + _replays_before(session, row.device, row.id)
    return position(session, row.person, row.device, row.id)


def _replays_before(session: Session, device: str, submission_id: int) -> int:
    """Organizers' runs that wait for longer."""
    return session.scalar(select(func.count()).select_from(Submission).where(
        text(REPLAYS_QUEUED), Submission.device == device, Submission.id < submission_id)) or 0


def sent_since(session: Session, person: int, contest: int | None, mode: Mode, since: datetime) -> list[datetime]:
    """When someone sent submissions of a mode into a contest (None: to practice) since a time, oldest first; not those we failed at."""
    return list(session.scalars(
        select(Submission.created_at)
        .where(Submission.person == person, Submission.mode == mode, Submission.created_at > since, Submission.replays.is_(None),
               Submission.contest.is_not_distinct_from(contest),
               or_(Submission.outcome.is_(None), Submission.outcome != Outcome.JUDGE_ERROR))
        .order_by(Submission.created_at)))


def count_queued(session: Session, person: int) -> int:
    """How many submissions of a person wait, on all devices."""
    return session.scalar(select(func.sum(Turn.queued)).where(Turn.person == person, text(WAITING))) or 0


def by_key(session: Session, person: int, idempotency_key: str) -> tuple[int, str | None] | None:
    """The submission sent with that Idempotency-Key, and the hash of its request."""
    found = session.execute(
        select(Submission.id, Submission.request_hash).where(Submission.person == person, Submission.idempotency_key == idempotency_key)
    ).first()
    return (found[0], found[1]) if found else None


def _reopen(session: Session, row: Submission, reason: str) -> bool:
    """Whether it competed until now."""
    competed, row.competes = row.competes, False
    row.outcome = row.score_us = row.score_low_us = row.score_high_us = row.speedup = row.finished_at = None
    row.losses, row.box_losses, row.cancel_requested = 0, 0, False
    row.version = _version_now(session, row)
    claims.requeue(session, row, reason)
    return competed


def _version_now(session: Session, row: Submission) -> int:
    """The version row that it is judged by from now on. An organizers' run stays with what it is for."""
    if row.replays is not None:
        return row.version
    played = session.scalar(select(ContestProblem.version).where(
        ContestProblem.contest == row.contest, ContestProblem.device == row.device,
        ContestProblem.version.in_(problems.gate_sets(row.version))).limit(1))
    return played or problems.newest_gate_set(session, row.version)


def _locked(session: Session, submission_id: int) -> Submission:
    row = session.scalar(
        select(Submission).where(Submission.id == submission_id).with_for_update().execution_options(populate_existing=True)
    )
    if row is None:
        raise NotFound(f"There is no submission {submission_id}.")
    return row


def _rows() -> Select[Submission, str, ProblemRow, ProblemVersion, dict[str, Any] | None, str | None, Contest | None]:
    attempt = and_(Attempt.submission == Submission.id, Attempt.attempt == Submission.attempt)
    return (
        select(Submission, Person.name, ProblemRow, ProblemVersion, Attempt.verdict, Token.name, Contest)
        .join(Person, Person.id == Submission.person)
        .join(ProblemVersion, ProblemVersion.id == Submission.version)
        .join(ProblemRow, ProblemRow.id == ProblemVersion.problem)
        .outerjoin(Attempt, attempt)
        .outerjoin(Token, and_(Token.id == Submission.token, Token.agent))
        .outerjoin(Contest, Contest.id == Submission.contest)
    )


def _view(found: _Found, place: int | None = None) -> SubmissionView:
    row, person, problem, version, verdict, agent, contest = found
    return SubmissionView(
        id=row.id, person_id=row.person, person=person, problem=problem.name, problem_title=problem.title, version=version.hash,
        gate_set=version.gate_set, device=row.device, mode=Mode(row.mode), state=State(row.state), file_name=row.file_name,
        source_sha=row.source_sha, language=row.language, licence=row.licence, ai_use=row.ai_use, door=row.door,
        created_at=row.created_at, claimed_at=row.claimed_at, finished_at=row.finished_at, attempt=row.attempt,
        cancel_requested=row.cancel_requested, outcome=Outcome(row.outcome) if row.outcome else None,
        verdict=Verdict.model_validate(verdict) if verdict and row.outcome else None, position=place,
        agent=agent, contest_id=row.contest, contest=contest.name if contest else None, replays=row.replays,
        open_source=contest is not None and contest.sources == "public" and contest.revealed_at is not None and row.replays is None,
    )
