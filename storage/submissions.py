"""Submissions as their readers see them, and what doors may change: a new one, a cancel, a rejudge."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, Select, and_, case, func, literal, select, text
from sqlalchemy.orm import Session

from kernelderby.core.errors import NotFound
from kernelderby.core.verdict import Mode, Outcome, State, Verdict
from kernelderby.storage import boards, claims, people, problems
from kernelderby.storage.base import QUEUED, WAITING
from kernelderby.storage.models import Attempt, Person, ProblemRow, ProblemVersion, Submission, Token, Turn

_Found = Row[Submission, str, ProblemRow, ProblemVersion, dict[str, Any] | None, str | None]


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
    """Queue a finished submission again, by the newest gate set of its version; its outcome is open until then.

    One that is not finished stays as it is. Raises NotFound.
    """
    row = _locked(session, submission_id)
    if row.state != State.DONE:
        return view(session, submission_id)
    competed, row.competes = row.competes, False
    row.outcome = row.score_us = row.score_low_us = row.score_high_us = row.speedup = row.finished_at = None
    row.losses, row.box_losses, row.cancel_requested = 0, 0, False
    row.version = problems.newest_gate_set(session, row.version)
    claims.requeue(session, row, "rejudge")
    if competed:
        boards.follow(session, row)
    return view(session, submission_id)


def view(session: Session, submission_id: int) -> SubmissionView:
    """One submission with its place in the queue. Raises NotFound."""
    found = session.execute(_rows().where(Submission.id == submission_id)).first()
    if found is None:
        raise NotFound(f"There is no submission {submission_id}.")
    row = found[0]
    return _view(found, position(session, row.person, row.device, row.id) if row.state == State.QUEUED else None)


def verdict_json(session: Session, submission_id: int) -> dict[str, Any] | None:
    """The verdict as it was written, value for value what was signed; None before the end. Raises NotFound."""
    row = view(session, submission_id)
    found = session.get(Attempt, (submission_id, row.attempt)) if row.outcome else None
    return found.verdict if found else None


def recent(
    session: Session, *, person: int | None = None, problem: str | None = None, limit: int = 50, before: int | None = None
) -> list[SubmissionView]:
    """The newest submissions of a person, of a problem, or of all, below the number `before`."""
    query = _rows().order_by(Submission.id.desc()).limit(limit)
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
            text(QUEUED), Submission.device == device, Submission.person == person, Submission.id <= submission_id)
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
    return max(own, 1) + int(others or 0)


def count_since(session: Session, person: int, mode: Mode, since: datetime) -> int:
    """How many submissions of a mode a person sent since a time."""
    return session.scalar(
        select(func.count()).select_from(Submission)
        .where(Submission.person == person, Submission.mode == mode, Submission.created_at > since)
    ) or 0


def count_queued(session: Session, person: int) -> int:
    """How many submissions of a person wait, on all devices."""
    return session.scalar(select(func.sum(Turn.queued)).where(Turn.person == person, text(WAITING))) or 0


def by_key(session: Session, person: int, idempotency_key: str) -> tuple[int, str | None] | None:
    """The submission sent with that Idempotency-Key, and the hash of its request."""
    found = session.execute(
        select(Submission.id, Submission.request_hash).where(Submission.person == person, Submission.idempotency_key == idempotency_key)
    ).first()
    return (found[0], found[1]) if found else None


def _locked(session: Session, submission_id: int) -> Submission:
    row = session.scalar(
        select(Submission).where(Submission.id == submission_id).with_for_update().execution_options(populate_existing=True)
    )
    if row is None:
        raise NotFound(f"There is no submission {submission_id}.")
    return row


def _rows() -> Select[Submission, str, ProblemRow, ProblemVersion, dict[str, Any] | None, str | None]:
    attempt = and_(Attempt.submission == Submission.id, Attempt.attempt == Submission.attempt)
    return (
        select(Submission, Person.name, ProblemRow, ProblemVersion, Attempt.verdict, Token.name)
        .join(Person, Person.id == Submission.person)
        .join(ProblemVersion, ProblemVersion.id == Submission.version)
        .join(ProblemRow, ProblemRow.id == ProblemVersion.problem)
        .outerjoin(Attempt, attempt)
        .outerjoin(Token, and_(Token.id == Submission.token, Token.agent))
    )


def _view(found: _Found, place: int | None = None) -> SubmissionView:
    row, person, problem, version, verdict, agent = found
    return SubmissionView(
        id=row.id, person_id=row.person, person=person, problem=problem.name, problem_title=problem.title, version=version.hash,
        gate_set=version.gate_set, device=row.device, mode=Mode(row.mode), state=State(row.state), file_name=row.file_name,
        source_sha=row.source_sha, language=row.language, licence=row.licence, ai_use=row.ai_use, door=row.door,
        created_at=row.created_at, claimed_at=row.claimed_at, finished_at=row.finished_at, attempt=row.attempt,
        cancel_requested=row.cancel_requested, outcome=Outcome(row.outcome) if row.outcome else None,
        verdict=Verdict.model_validate(verdict) if verdict and row.outcome else None, position=place,
        agent=agent,
    )
