"""What organizers do with people, and what people do with their whole account: roles, bans, browser logins, leaving."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, delete, select, update
from sqlalchemy.orm import Session

from kernelderby.core.errors import NotAllowed, NotFound, RequestError
from kernelderby.core.text import one_line
from kernelderby.core.verdict import Mode, Outcome, State
from kernelderby.storage import boards, claims, people, submissions, teams
from kernelderby.storage.contest_models import Appeal, Notice, Registration
from kernelderby.storage.models import Attempt, EventRow, Identity, Person, Submission, Token, WebSession
from kernelderby.storage.people import DELETED, ROLES, PersonInfo


@dataclass(frozen=True, kw_only=True)
class AccountInfo:
    """A person as organizers see them."""

    id: int
    name: str
    role: str
    created_at: datetime
    banned_at: datetime | None
    ban_reason: str              # "" where they are not banned
    deleted_at: datetime | None
    logins: list[str]            # `github octocat`


@dataclass(frozen=True, kw_only=True)
class LoginInfo:
    """A browser that is logged in."""

    id: int
    created_at: datetime
    expires_at: datetime
    token: str | None            # the name of the token that opened it; None: a link, or an account elsewhere
    is_this: bool                # the one that asks


def get(session: Session, name_or_id: str) -> AccountInfo:
    """A person by number or name. Raises NotFound."""
    return _infos(session, [_found(session, name_or_id)])[0]


def listing(session: Session, after: int = 0, limit: int = 100) -> list[AccountInfo]:
    """People in the order in which they came, from the number after `after`."""
    return _infos(session, list(session.scalars(select(Person).where(Person.id > after).order_by(Person.id).limit(limit))))


def set_role(session: Session, by: PersonInfo, name_or_id: str, role: str) -> AccountInfo:
    """Give a person a role, by an admin, never to themself: so one admin always stays. Raises NotFound, NotAllowed, RequestError."""
    if by.role != "admin" or not by.is_organizer:
        raise NotAllowed("Only an admin gives roles. `derby admin role`, where the database is, makes the first one.")
    if _found(session, name_or_id).id == by.id:
        raise NotAllowed("Another admin has to change your role, so that one always stays.")
    return set_role_here(session, name_or_id, role)


def set_role_here(session: Session, name_or_id: str, role: str) -> AccountInfo:
    """Give a person a role, by whoever holds the database. Raises NotFound, RequestError."""
    row = _person(session, name_or_id)
    if role not in ROLES:
        raise RequestError(f"The role {role[:40]!r} is none of {', '.join(ROLES)}.")
    if row.deleted_at is not None:
        raise RequestError("This account was deleted by its person and does nothing any more.")
    row.role = role
    session.flush()
    return _infos(session, [row])[0]


def ban(session: Session, by: PersonInfo, name_or_id: str, reason: str, now: datetime) -> AccountInfo:
    """Shut a person out: what waits or runs is cancelled, what they sent competes no more. Raises NotFound, NotAllowed, RequestError."""
    row = _judged(session, by, name_or_id)
    if not (said := one_line(reason, 300)):
        raise RequestError("Give the reason: whoever is banned reads it.")
    row.banned_at, row.ban_reason = row.banned_at or now, said
    session.flush()
    _cancel_all(session, row.id)
    competing = list(session.scalars(select(Submission).where(Submission.person == row.id, Submission.competes)))
    for entry in competing:
        entry.competes = False
    _follow(session, competing)
    return _infos(session, [row])[0]


def unban(session: Session, by: PersonInfo, name_or_id: str) -> AccountInfo:
    """Let a person in again; their accepted entries compete again. Raises NotFound, NotAllowed."""
    row = _judged(session, by, name_or_id)
    if row.banned_at is None:
        return _infos(session, [row])[0]
    row.banned_at, row.ban_reason = None, ""
    session.flush()
    back = []
    for entry, attempt in session.execute(_accepted(row.id)):
        entry.competes = entry.score_us is not None and claims.competes(
            session, entry, attempt.outcome, (attempt.verdict or {}).get("flags", ()))
        back += [entry] if entry.competes else []
    _follow(session, back)
    return _infos(session, [row])[0]


def logins_of(session: Session, person: PersonInfo, now: datetime) -> list[LoginInfo]:
    """The browsers that are logged in, newest first."""
    found = session.execute(select(WebSession, Token.name).outerjoin(Token, Token.id == WebSession.token)
                            .where(*_logins(person.id, now)).order_by(WebSession.id.desc()))
    return [LoginInfo(id=row.id, created_at=row.created_at, expires_at=row.expires_at, token=token, is_this=row.id == person.session)
            for row, token in found]


def end_login(session: Session, person: PersonInfo, login: int, now: datetime) -> LoginInfo:
    """Log one of a person's browsers out; it, as it was. Raises NotFound."""
    found = next((known for known in logins_of(session, person, now) if known.id == login), None)
    if found is None:
        raise NotFound(f"You have no login {login}, or it has ended. `derby people sessions` lists yours.")
    session.execute(update(WebSession).where(WebSession.id == login).values(revoked_at=now))
    return found


def end_other_logins(session: Session, person: PersonInfo, now: datetime) -> int:
    """Log every browser of a person out but the one that asks, and end what waits to open one; how many were logged in."""
    others = [known.id for known in logins_of(session, person, now) if not known.is_this]
    kept = WebSession.id != (person.session or 0)
    session.execute(update(WebSession).where(WebSession.person == person.id, WebSession.revoked_at.is_(None), kept).values(revoked_at=now))
    return len(others)


def leave(session: Session, person: PersonInfo, confirm: str, now: datetime) -> list[str]:
    """End an account for good; the sources that nobody else sent, to be dropped once this is committed (see `orphans`).

    What runs is cancelled. Name, logins, tokens, contacts, logs and questions go; entries stay on their boards without a name.
    Raises NotAllowed for an organizer, RequestError where `confirm` is not the name.
    """
    if confirm != person.name:
        raise RequestError(f"To delete this account for good, say its name as confirmation: {person.name}")
    people.lock(session, person.id)
    row = session.get_one(Person, person.id, populate_existing=True)
    if row.role != "contestant":
        raise NotAllowed(f"You are {row.role}. Have an admin take that role back first, so that what you organize has someone.")
    _cancel_all(session, row.id)
    for team in teams.of_person(session, row.id):
        teams.leave(session, team.id, PersonInfo(id=row.id, name=row.name, role=row.role), now)
    row.name, row.deleted_at = f"{DELETED}{row.id}", now
    session.flush()
    _forget(session, row.id)
    return list(session.scalars(select(Submission.source_sha).where(Submission.person == row.id, Submission.replays.is_(None)).distinct()))


def orphans(session: Session, shas: Iterable[str]) -> list[str]:
    """Which of these sources nobody who is still here has sent."""
    kept = (select(Submission.source_sha).join(Person, Person.id == Submission.person)
            .where(Person.deleted_at.is_(None), Submission.replays.is_(None)))
    return [sha for sha in shas if session.scalar(kept.where(Submission.source_sha == sha).limit(1)) is None]


def _person(session: Session, name_or_id: str) -> Person:
    """Someone, who stays as they are until the transaction ends but for what is done here."""
    people.lock(session, _found(session, name_or_id).id)
    return _found(session, name_or_id)


def _found(session: Session, name_or_id: str) -> Person:
    """Digits are a number, since no name is made of digits alone."""
    named = one_line(name_or_id, 80)
    is_number = named.isdecimal() and len(named) <= 18
    whose = Person.id == int(named) if is_number else Person.name == named
    row = session.scalar(select(Person).where(whose).execution_options(populate_existing=True))
    if row is None:
        raise NotFound(f"There is no person {named!r}. `derby people list` shows who is there.")
    return row


def _judged(session: Session, by: PersonInfo, name_or_id: str) -> Person:
    """Someone whom this organizer may ban and let in again."""
    if not by.is_organizer:
        raise NotAllowed("Only organizers ban people and let them in again.")
    row = _person(session, name_or_id)
    if row.id == by.id:
        raise NotAllowed("You cannot ban yourself.")
    if row.role != "contestant" and by.role != "admin":
        raise NotAllowed(f"{row.name} is {row.role}. Only an admin bans those who organize.")
    return row


def _cancel_all(session: Session, person: int) -> None:
    """Ends what waits and asks what runs to end; organizers' runs of these entries are not the person's."""
    for number in session.scalars(select(Submission.id).where(Submission.person == person, Submission.state != State.DONE,
                                                               Submission.replays.is_(None)).order_by(Submission.id)).all():
        submissions.cancel(session, number)


def _follow(session: Session, entries: list[Submission]) -> None:
    """Brings every board of these entries up to date: once each, by the best one."""
    session.flush()
    best: dict[tuple[int, str, int | None], Submission] = {}
    for entry in entries:
        place = (entry.version, entry.device, entry.contest)
        if place not in best or (entry.score_us or 0) < (best[place].score_us or 0):
            best[place] = entry
    for entry in best.values():
        boards.follow(session, entry)


def _accepted(person: int) -> Select[Submission, Attempt]:
    return (select(Submission, Attempt).join(Attempt, (Attempt.submission == Submission.id) & (Attempt.attempt == Submission.attempt))
            .where(Submission.person == person, Submission.state == State.DONE, Submission.mode == Mode.RANKED,
                   Submission.outcome == Outcome.ACCEPTED, Submission.replays.is_(None)))


def _logins(person: int, now: datetime) -> tuple[ColumnElement[bool], ...]:
    return (WebSession.person == person, WebSession.kind == "cookie", WebSession.revoked_at.is_(None), WebSession.expires_at > now)


def _forget(session: Session, person: int) -> None:
    session.execute(delete(WebSession).where(WebSession.person == person))
    session.execute(delete(Identity).where(Identity.person == person))
    session.execute(delete(Token).where(Token.person == person))
    session.execute(update(Registration).where(Registration.person == person).values(contact={}))
    session.execute(delete(Notice).where(Notice.person == person, Notice.kind == "question", ~Notice.public))
    session.execute(update(Appeal).where(Appeal.person == person).values(text=""))
    own = select(Submission.id).where(Submission.person == person)
    session.execute(delete(EventRow).where(EventRow.submission.in_(own), EventRow.kind == "log"))
    session.execute(update(Submission).where(Submission.person == person)
                    .values(file_name="kernel", idempotency_key=None, request_hash=None))


def _infos(session: Session, rows: list[Person]) -> list[AccountInfo]:
    logins: dict[int, list[str]] = {row.id: [] for row in rows}
    for known in session.scalars(select(Identity).where(Identity.person.in_(logins)).order_by(Identity.id)):
        logins[known.person].append(f"{known.provider} {known.name}")
    return [AccountInfo(id=row.id, name=row.name, role=row.role, created_at=row.created_at, banned_at=row.banned_at,
                        ban_reason=row.ban_reason, deleted_at=row.deleted_at, logins=logins[row.id]) for row in rows]
