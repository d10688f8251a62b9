"""The one door: every submission, cancel and rejudge comes through here, whatever the user sat at."""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from kernelderby.core import rules
from kernelderby.core.errors import DuplicateKey, NotAllowed, NotFound, NotLoggedIn, RequestError
from kernelderby.core.rules import Quota
from kernelderby.core.settings import Settings
from kernelderby.core.submission import Directives, SubmitRequest, entry_sha, read_directives, read_source, source_sha
from kernelderby.core.verdict import Mode, Outcome
from kernelderby.storage import audit, contests, duels, ledger, people, quotas, registrations, submissions, visibility
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.contests import ContestInfo
from kernelderby.storage.database import Database
from kernelderby.storage.people import PersonInfo
from kernelderby.storage.quotas import Left
from kernelderby.storage.submissions import NewSubmission, SubmissionView

log = logging.getLogger(__name__)
Ring = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """The answer to a submission: from here on it is never lost."""

    submission: int
    url: str                      # permanent
    problem: str
    device: str
    mode: Mode
    inferred: list[str] = field(default_factory=list)   # what the request left open: problem, device
    position: int | None = None   # in the queue, 1 is next; None: it is past the queue
    left: Left | None = None      # what may still be sent in this mode; None: no limit


@dataclass(frozen=True, kw_only=True)
class DuelTicket:
    """The answer to a duel that was asked for."""

    duel: int
    url: str


def submit(
    database: Database, artifacts: ArtifactStore, settings: Settings, request: SubmitRequest, ring: Ring, quota: Quota | None = None
) -> Ticket:
    """Take a submission: checked, kept and committed when this returns; then its workers are rung.

    A request whose Idempotency-Key was used for the same request gets that one's ticket. Raises RequestError of the rule broken.
    """
    text = read_source(request.file_name, request.source)
    quota = quota or Quota()
    with database.read() as session:   # refuse before anything is written
        known = _known(session, request)
        if known is not None:
            return _ticket(session, settings, known, request, [], quota)
        _admit(session, request, text, quota)
    artifacts.put(request.source)
    ticket = _commit(database, settings, request, text, quota)
    ring(ticket.device)
    log.info("submitted", extra={"submission": ticket.submission, "person": request.person_id, "door": request.door})
    return ticket


def cancel(database: Database, person: PersonInfo, submission_id: int) -> SubmissionView:
    """End a submission, by its owner or an organizer. What runs ends within seconds; what is done stays. Raises NotFound, NotAllowed."""
    with database.begin() as session:
        if visibility.submission(session, submission_id, person, datetime.now(UTC)).person_id != person.id and not person.is_organizer:
            raise NotAllowed("Only its owner or an organizer may cancel a submission.")
        audit.note(session, person.id, "cancel", submission=submission_id)
        return submissions.cancel(session, submission_id)


def rejudge(database: Database, person: PersonInfo, submission_id: int, ring: Ring, reason: str = "") -> SubmissionView:
    """Judge a finished submission again, as a new attempt, by an organizer. Raises NotFound, NotAllowed; RequestError after the reveal."""
    if not person.is_organizer:
        raise NotAllowed("Only an organizer may have a submission judged again.")
    with database.begin() as session:
        known = submissions.view(session, submission_id)
        if known.contest_id is not None and contests.by_id(session, known.contest_id, datetime.now(UTC)).revealed_at is not None:
            raise RequestError(f"Submission {submission_id} is of a contest that is revealed: its order is final, its seeds are public.")
        audit.note(session, person.id, "rejudge", submission=submission_id, reason=reason)
        view = submissions.rejudge(session, submission_id)
    ring(view.device)
    return view


def duel(database: Database, settings: Settings, person: PersonInfo, a: int, b: int, ring: Ring) -> DuelTicket:
    """Take a duel of two accepted ranked submissions of one board, committed when this returns; then its workers are rung.

    Raises NotFound, NotAllowed, QuotaSpent, or RequestError with what the two have to be.
    """
    now = datetime.now(UTC)
    with database.begin() as session:
        people.lock(session, person.id)
        entries = [visibility.submission(session, number, person, now) for number in (a, b)]
        _admit_duel(session, person, entries, now - timedelta(days=1))
        _check_budget(session, person.token)
        number = duels.ask(session, a, b, person.id, now)
    ring(entries[0].device)
    return DuelTicket(duel=number, url=settings.address(f"/api/v1/duels/{number}"))


def _admit_duel(session: Session, person: PersonInfo, entries: list[SubmissionView], since: datetime) -> None:
    for entry in entries:
        if entry.replays is not None:
            raise RequestError(f"Submission {entry.id} is an organizers' run of submission {entry.replays}. Name that one.")
        if entry.mode is not Mode.RANKED or entry.outcome is not Outcome.ACCEPTED:
            raise RequestError(f"Submission {entry.id} is not an accepted ranked entry. Send it with --mode ranked first.")
    if len({(entry.problem, entry.version, entry.device) for entry in entries}) > 1:
        raise RequestError("The two submissions are not of one problem version and device class. Choose two of one board.")
    if person.is_organizer:
        return
    if all(entry.person_id != person.id for entry in entries):
        raise NotAllowed("One of the two must be a submission of yours.")
    for entry in entries:
        rules.check_duel(entry.id, duels.asked_since(session, person.id, entry.id, since))


def _commit(database: Database, settings: Settings, request: SubmitRequest, text: str, quota: Quota) -> Ticket:
    inferred: list[str] = []
    try:
        with database.begin() as session:
            people.lock(session, request.person_id)   # one request of a person at a time: quota and key hold
            if request.contest is not None:
                quotas.lock(session, request.contest, request.person_id)
            known = _known(session, request)
            if known is None:
                new, inferred = _admit(session, request, text, quota)
                known = submissions.insert(session, new, datetime.now(UTC))
            return _ticket(session, settings, known, request, inferred, quota)
    except IntegrityError:
        with database.read() as session:
            known = _known(session, request)
            if known is None:
                raise
            return _ticket(session, settings, known, request, [], quota)


def _admit(session: Session, request: SubmitRequest, text: str, quota: Quota) -> tuple[NewSubmission, list[str]]:
    """Every rule, in the order in which a contestant can mend things."""
    now = datetime.now(UTC)
    try:
        person = people.get(session, request.person_id)
    except NotFound:
        raise NotLoggedIn from None
    people.check_not_banned(session, person.id)
    directives, inferred = read_directives(text), list[str]()
    contest = _contest(session, request.contest, now)
    version, device = (_on_a_contest_board(session, request, directives, inferred, contest) if contest else
                       _on_a_practice_board(session, request, directives, inferred, person, now))
    licence = rules.check_licence(request.licence, request.mode)
    ai_use = rules.check_ai_use(request.ai_use)
    if not person.is_organizer:
        rules.check_quota(request.mode, _sent(session, request, contest, now), submissions.count_queued(session, person.id), quota, now)
    _check_budget(session, request.token_id)
    team = quotas.admit(session, contest, person.id, request.mode) if contest else None
    file_name = rules.check_file_name(request.file_name)
    return NewSubmission(
        person=person.id, team=team, contest=contest.id if contest else None, version=version, device=device, mode=request.mode,
        file_name=file_name, source_sha=source_sha(request.source), language=rules.language(file_name, text), licence=licence,
        ai_use=ai_use, entry_sha=entry_sha(request.source), door=request.door[:8], token=request.token_id,
        idempotency_key=rules.check_key(request.idempotency_key), request_hash=_request_hash(request),
    ), inferred


def _contest(session: Session, name: str | None, now: datetime) -> ContestInfo | None:
    """The contest that is sent into. Raises NotFound, BoardClosed before its start, DeadlinePassed after its end."""
    if name is None:
        return None
    contest = contests.get(session, name, now)
    rules.check_contest(contest.name, contest.rules, contest.stage)
    return contest


def _on_a_practice_board(
    session: Session, request: SubmitRequest, directives: Directives, inferred: list[str], person: PersonInfo, now: datetime
) -> tuple[int, str]:
    problem = visibility.problem(session, rules.choose_problem(request.problem, directives, inferred), person, now)
    device = rules.choose_device(request.device, directives, problem.devices, inferred)
    rules.check_open(problem.open, problem.closes_at, now)
    return problem.version_id, device


def _on_a_contest_board(
    session: Session, request: SubmitRequest, directives: Directives, inferred: list[str], contest: ContestInfo
) -> tuple[int, str]:
    """The version is the contest's, whatever practice has come to since."""
    boards = contests.problems_of(session, contest.id)
    names = list(dict.fromkeys(board.problem for board in boards))
    name = rules.choose_contest_problem(request.problem, directives, names, contest.name, inferred)
    device = rules.choose_device(request.device, directives, [b.device for b in boards if b.problem == name], inferred)
    return contests.place(session, contest, name, device).version_id, device


def _sent(session: Session, request: SubmitRequest, contest: ContestInfo | None, now: datetime) -> list[datetime]:
    return submissions.sent_since(session, request.person_id, contest.id if contest else None, request.mode, now - rules.HOUR)


def _check_budget(session: Session, token_id: int | None) -> None:
    if token_id is not None:
        left = ledger.budget(session, token_id)
        rules.check_budget(left.runs, left.runs_spent, left.gpu_seconds, left.seconds_spent)


def _known(session: Session, request: SubmitRequest) -> int | None:
    """The submission this very request made before. Raises DuplicateKey where its key was used for another."""
    key = rules.check_key(request.idempotency_key)
    found = submissions.by_key(session, request.person_id, key) if key else None
    if found is None:
        return None
    submission_id, request_hash = found
    if request_hash != _request_hash(request):
        raise DuplicateKey
    return submission_id


def _request_hash(request: SubmitRequest) -> str:
    said = [request.file_name, source_sha(request.source), request.problem, request.device, request.mode, request.licence, request.ai_use,
            request.contest]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _ticket(session: Session, settings: Settings, submission_id: int, request: SubmitRequest, inferred: list[str], quota: Quota) -> Ticket:
    view = submissions.view(session, submission_id)
    return Ticket(
        submission=view.id, url=settings.address(f"/submissions/{view.id}"), problem=view.problem, device=view.device,
        mode=view.mode, inferred=inferred, position=view.position, left=_left(session, request, quota),
    )


def _left(session: Session, request: SubmitRequest, quota: Quota) -> Left | None:
    """What may still be sent: of a contest's quota, or by the hour."""
    now = datetime.now(UTC)
    if request.contest is None:
        sent = _sent(session, request, None, now)
        is_free = people.get(session, request.person_id).is_organizer
        return None if is_free else Left(runs=max(0, quota.an_hour[request.mode] - len(sent)), gpu_seconds=None)
    contest = contests.get(session, request.contest, now)
    place = registrations.registration(session, contest.id, request.person_id)
    left = quotas.left(session, contest, request.person_id, place.team if place else None, request.mode)
    return None if left == Left(runs=None, gpu_seconds=None) else left
