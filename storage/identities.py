"""Accounts elsewhere that log people in: rounds over OAuth, links, and codes that link from another door."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from kernelderby.core.errors import NotFound, RequestError
from kernelderby.core.text import one_line
from kernelderby.storage import people
from kernelderby.storage.models import Identity, Person, Token, WebSession
from kernelderby.storage.people import PersonInfo, hashed

ROUND_LIFE = timedelta(minutes=10)         # from the button to the way back
LINK_LIFE = timedelta(minutes=15)          # of a code that another door redeems
_TRIES = range(2, 100)                     # numbers behind a name that is taken; then a random one


class RoundRefused(RequestError):
    """This login cannot be finished. Start it again."""

    status = 401


@dataclass(frozen=True, kw_only=True)
class Account:
    """Who someone is elsewhere."""

    provider: str          # github, discord
    subject: str           # the account's number there, which outlives its name
    name: str


@dataclass(frozen=True, kw_only=True)
class IdentityInfo:
    """An account that logs a person in."""

    id: int
    provider: str
    subject: str
    name: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Started:
    """A round that begins: `state` travels by the provider, `browser` stays in a cookie, `verifier` is PKCE's and stays here."""

    state: str
    browser: str
    verifier: str


@dataclass(frozen=True, kw_only=True)
class Round:
    """A round that came back."""

    verifier: str
    next: str              # where to go on, on this site
    person: int | None     # whose account it shall be linked to; None: a login


@dataclass(frozen=True, kw_only=True)
class LinkCode:
    """A code that links an account elsewhere, once. Shown this once."""

    code: str
    expires_at: datetime


def start_round(session: Session, provider: str, next: str, person: int | None, now: datetime) -> Started:
    """Begin a login at a provider, or (with a person) a link to them."""
    _forget_old(session, now)
    started = Started(state=secrets.token_urlsafe(32), browser=secrets.token_urlsafe(32), verifier=secrets.token_urlsafe(48))
    detail = {"provider": provider, "verifier": started.verifier, "browser": hashed(started.browser), "next": next}
    _add(session, "oauth", started.state, person, now, ROUND_LIFE, detail)
    return started


def end_round(session: Session, provider: str, state: str, browser: str, now: datetime) -> Round:
    """A round that came back to the browser where it began, which ends with this. Raises RoundRefused."""
    row = session.scalar(select(WebSession).where(WebSession.kind == "oauth", WebSession.hash == hashed(state)).with_for_update())
    detail = row.detail or {} if row else {}
    if row is None or detail["provider"] != provider:
        raise RoundRefused("This login did not begin on this server. Start it again here.")
    if not secrets.compare_digest(detail["browser"], hashed(browser)):
        raise RoundRefused("This login began in another browser, or another one was begun here since. Start it again here.")
    if row.revoked_at is not None:
        raise RoundRefused("This login was used already: the page was opened twice. Start it again here.")
    if row.expires_at <= now:
        raise RoundRefused("This login took longer than 10 minutes. Start it again here.")
    row.revoked_at = now
    return Round(verifier=detail["verifier"], next=detail["next"], person=row.person)


def log_in(session: Session, account: Account, now: datetime) -> PersonInfo:
    """Whom an account logs in; someone new where it is not known. Raises Banned."""
    known = _row(session, account.provider, account.subject) or _newcomer(session, account, now)
    known.name = one_line(account.name, 80)
    people.check_not_banned(session, known.person)
    return people.get(session, known.person)


def link(session: Session, person: int, account: Account, now: datetime) -> IdentityInfo:
    """Let an account log a person in; once linked, it stays so. Raises NotFound, Banned, RequestError where it is someone else's."""
    people.check_not_banned(session, person)
    known = _row(session, account.provider, account.subject) or _add_identity(session, person, account, now)
    if known.person != person:
        raise RequestError(f"The {title(account.provider)} account {one_line(account.name, 80)} logs in another person here. "
                           "Log in by it and unlink it there first.")
    return _info(known)


def unlink(session: Session, person: int, identity: int) -> IdentityInfo:
    """Take a login by an account back. Raises NotFound, RequestError for the last way in."""
    people.lock(session, person)
    own = list(session.scalars(select(Identity).where(Identity.person == person)))
    found = next((row for row in own if row.id == identity), None)
    if found is None:
        raise NotFound(f"You have no linked account {identity}. `derby people show` lists yours.")
    has_token = session.scalar(select(Token.id).where(Token.person == person, Token.revoked_at.is_(None), ~Token.agent).limit(1))
    if len(own) == 1 and has_token is None:
        raise RequestError("Nothing else would let you in again. Make a token or link another account first.")
    info = _info(found)
    session.delete(found)
    return info


def of_person(session: Session, person: int) -> list[IdentityInfo]:
    """The accounts that log a person in, the first one first."""
    return [_info(row) for row in session.scalars(select(Identity).where(Identity.person == person).order_by(Identity.id))]


def new_link_code(session: Session, person: int, now: datetime) -> LinkCode:
    """A code that links one account elsewhere to a person; it ends those made before."""
    people.check_not_banned(session, person)
    _forget_old(session, now)
    session.execute(update(WebSession).where(WebSession.kind == "link", WebSession.person == person, WebSession.revoked_at.is_(None))
                    .values(revoked_at=now))
    code = secrets.token_urlsafe(12)
    _add(session, "link", code, person, now, LINK_LIFE, None)
    return LinkCode(code=code, expires_at=now + LINK_LIFE)


def redeem_link(session: Session, code: str, provider: str, subject: str, name: str, now: datetime | None = None) -> PersonInfo:
    """Link an account to whoever made the code, which ends with this.

    Raises RequestError for a code that is unknown, used or old, and for an account that is someone else's (the code stays); Banned.
    """
    now = now or datetime.now(UTC)
    alive: ColumnElement[bool] = (WebSession.hash == hashed(code.strip())) & (WebSession.expires_at > now)
    person = session.scalar(update(WebSession).where(WebSession.kind == "link", alive, WebSession.revoked_at.is_(None))
                            .values(revoked_at=now).returning(WebSession.person))
    if person is None:
        raise RequestError("This code is not known, was used already, or is older than 15 minutes. `derby people link` makes a new one.")
    link(session, person, Account(provider=provider, subject=subject, name=name), now)
    return people.get(session, person)


def title(provider: str) -> str:
    """A provider's name as people write it."""
    return {"github": "GitHub"}.get(provider, provider.title())


def _row(session: Session, provider: str, subject: str) -> Identity | None:
    return session.scalar(select(Identity).where(Identity.provider == provider, Identity.subject == subject))


def _newcomer(session: Session, account: Account, now: datetime) -> Identity:
    try:
        return _add_identity(session, people.create(session, _free_name(session, account)).id, account, now)
    except IntegrityError:
        raise RoundRefused("Someone took that name at this very moment. Log in once more.") from None


def _add_identity(session: Session, person: int, account: Account, now: datetime) -> Identity:
    row = Identity(person=person, provider=account.provider, subject=account.subject, name=one_line(account.name, 80), created_at=now)
    session.add(row)
    try:
        session.flush()
    except IntegrityError:
        raise RoundRefused("This account comes in by another request at this very moment. Try again.") from None
    return row


def _free_name(session: Session, account: Account) -> str:
    """The account's name, with a number where it is taken. Case makes no name a new one here: these are chosen elsewhere."""
    base = one_line(account.name, 60) or account.provider
    if people.is_kept(base):
        base = f"{account.provider}-{base}"
    wanted = [base, *(f"{base}-{n}" for n in _TRIES)]
    alike = or_(Person.name.in_(wanted), func.lower(Person.name).in_([name.lower() for name in wanted]))
    taken = {name.lower() for name in session.scalars(select(Person.name).where(alike))}
    return next((name for name in wanted if name.lower() not in taken), f"{base}-{secrets.token_hex(6)}")


def _add(session: Session, kind: str, secret: str, person: int | None, now: datetime, life: timedelta,
         detail: dict[str, Any] | None) -> None:
    session.add(WebSession(person=person, kind=kind, hash=hashed(secret), detail=detail, created_at=now, expires_at=now + life))
    session.flush()


def _forget_old(session: Session, now: datetime) -> None:
    """Rounds and codes of days ago are of no use to anyone, and anybody can begin a round."""
    session.execute(delete(WebSession).where(WebSession.kind.in_(("oauth", "link")), WebSession.expires_at < now - timedelta(days=1)))


def _info(row: Identity) -> IdentityInfo:
    return IdentityInfo(id=row.id, provider=row.provider, subject=row.subject, name=row.name, created_at=row.created_at)
