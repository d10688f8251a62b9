"""People, their tokens and their logins. Secrets are shown once and kept as SHA-256."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, or_, select, update
from sqlalchemy.orm import Session

from kernelderby.core.errors import Banned, NotAllowed, NotFound, RequestError
from kernelderby.core.text import one_line
from kernelderby.storage.models import Person, Token, WebSession

SCOPES = ("submit", "read", "organize")
ROLES = ("contestant", "organizer", "admin")
LOCAL_NAME = "local"                       # who owns a platform on one machine
CODE_LIFE = timedelta(hours=24)            # a login link that nobody opened
COOKIE_LIFE = timedelta(days=30)
DELETED = "deleted-"                       # what the names of those who left begin with, their number after it


@dataclass(frozen=True, kw_only=True)
class PersonInfo:
    """Who is asking, and what their token or login lets them do."""

    id: int
    name: str
    role: str                              # contestant, organizer, admin
    scopes: tuple[str, ...] = SCOPES       # of the token used, or of the one that the login was opened by; another login has all
    token: int | None = None               # that token
    agent: str | None = None               # its name, where it is an agent's
    session: int | None = field(default=None, compare=False)     # sessions.id of the browser's login that asks

    @property
    def is_organizer(self) -> bool:
        """Whether they may run the platform."""
        return self.role in ("organizer", "admin") and "organize" in self.scopes

    @property
    def may_give(self) -> tuple[str, ...]:
        """The scopes that a token they make may have: none for an agent, `organize` for organizers alone."""
        if self.agent is not None:
            return ()
        return tuple(s for s in SCOPES if s in self.scopes and (s != "organize" or self.is_organizer))


@dataclass(frozen=True, kw_only=True)
class TokenInfo:
    """A token as its owner sees it later: without the secret."""

    id: int
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    revoked_at: datetime | None
    agent: bool = False
    runs: int | None = None                # an agent's budget over the token's life; None: no limit
    gpu_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class NewToken:
    """A token to be made. A budget goes with an agent's token only: its person could make themself another one."""

    name: str
    scopes: Sequence[str] = SCOPES
    agent: bool = False
    runs: int | None = None
    gpu_seconds: float | None = None


def create(session: Session, name: str, role: str = "contestant") -> PersonInfo:
    """A new person. Raises RequestError for a name that is empty, taken or means something else, or an unknown role."""
    shown = one_line(name, 80)
    if not shown:
        raise RequestError("A person needs a name.")
    if is_kept(shown):
        raise RequestError(f"The name {shown!r} could be taken for a number or for someone who left. Choose another one.")
    if role not in ROLES:
        raise RequestError(f"The role {role[:40]!r} is none of {', '.join(ROLES)}.")
    if session.scalar(select(Person.id).where(Person.name == shown)) is not None:
        raise RequestError(f"The name {shown!r} is taken.")
    row = Person(name=shown, role=role, created_at=_now())
    session.add(row)
    session.flush()
    return PersonInfo(id=row.id, name=row.name, role=row.role)


def is_kept(name: str) -> bool:
    """Whether nobody may choose that name, since it would be read as something else."""
    return name.isdecimal() or name == "me" or name.startswith(DELETED)


def get(session: Session, person_id: int) -> PersonInfo:
    """The person by number. Raises NotFound."""
    row = session.get(Person, person_id)
    if row is None:
        raise NotFound(f"There is no person {person_id}.")
    return PersonInfo(id=row.id, name=row.name, role=row.role)


def lock(session: Session, person_id: int) -> None:
    """Let nobody else that asks for this lock of the person pass until the transaction ends."""
    # key_share: rows that refer to the person can be written meanwhile, such as the end of a run that holds what we wait for
    session.execute(select(Person.id).where(Person.id == person_id).with_for_update(key_share=True))


def by_name(session: Session, name: str) -> PersonInfo | None:
    """The person of that name."""
    row = session.scalar(select(Person).where(Person.name == one_line(name, 80)))
    return PersonInfo(id=row.id, name=row.name, role=row.role) if row else None


def listing(session: Session) -> list[PersonInfo]:
    """Everyone, by name."""
    return [PersonInfo(id=p.id, name=p.name, role=p.role) for p in session.scalars(select(Person).order_by(Person.name))]


def local_organizer(session: Session) -> PersonInfo:
    """The organizer of a platform on one machine, made on first use."""
    return by_name(session, LOCAL_NAME) or create(session, LOCAL_NAME, "organizer")


def shown(person: str, agent: str | None) -> str:
    """Who sent something, in words: an agent is named with its person."""
    return f"agent {agent} of {person}" if agent else person


def new_token(session: Session, person_id: int, name: str, scopes: Sequence[str] = SCOPES) -> str:
    """A new token of a person: the only time its text is seen. Raises NotFound, or RequestError for an unknown scope."""
    return add_token(session, person_id, NewToken(name=name, scopes=scopes))


def add_token(session: Session, person_id: int, new: NewToken) -> str:
    """A new token: the only time its text is seen. Raises NotFound, or RequestError for what a token cannot be."""
    get(session, person_id)
    if unknown := [s for s in new.scopes if s not in SCOPES]:
        raise RequestError(f"The scope {unknown[0][:40]!r} is none of {', '.join(SCOPES)}.")
    if not new.agent and (new.runs is not None or new.gpu_seconds is not None):
        raise RequestError("A budget goes with an agent's token. Mark it so with --agent (`agent` in the API), or leave the budget out.")
    if not (name := one_line(new.name, 80)):
        raise RequestError("A token needs a name, so that you know later which one to revoke.")
    token = "derby_" + secrets.token_urlsafe(32)
    session.add(Token(person=person_id, name=name, hash=hashed(token), scopes=list(new.scopes),
                      created_at=_now(), agent=new.agent, runs=new.runs, gpu_seconds=new.gpu_seconds))
    session.flush()
    return token


def own_token(session: Session, person: PersonInfo, new: NewToken) -> str:
    """A token that someone makes for themself. Raises NotAllowed for scopes that their own one lacks, RequestError for a name in use."""
    if person.agent is not None:
        raise NotAllowed("An agent's token makes no tokens. Its person does that, logged in or with a token of their own.")
    if missing := [s for s in new.scopes if s in SCOPES and s not in person.may_give]:
        raise NotAllowed(f"You cannot give the scope {missing[0]}, since you do not hold it here. You can give: "
                         f"{', '.join(person.may_give) or 'none'}.")
    lock(session, person.id)
    if any(t.name == one_line(new.name, 80) and t.revoked_at is None for t in tokens_of(session, person.id)):
        raise RequestError(f"You have a token {one_line(new.name, 80)!r} already. Choose another name, or revoke that one first.")
    return add_token(session, person.id, new)


def by_token(session: Session, token: str) -> PersonInfo | None:
    """Whose token that is, unless it was revoked. Raises Banned."""
    found = session.execute(
        select(Person, Token).join(Token, Token.person == Person.id).where(Token.hash == hashed(token), Token.revoked_at.is_(None))
    ).first()
    return _with_token(*found) if found else None


def tokens_of(session: Session, person_id: int) -> list[TokenInfo]:
    """All tokens a person ever had, newest first."""
    rows = session.scalars(select(Token).where(Token.person == person_id).order_by(Token.id.desc()))
    return [TokenInfo(id=t.id, name=t.name, scopes=tuple(t.scopes), created_at=t.created_at, revoked_at=t.revoked_at, agent=t.agent,
                      runs=t.runs, gpu_seconds=t.gpu_seconds) for t in rows]


def revoke_token(session: Session, person_id: int, token_id: int) -> None:
    """End one of a person's tokens; one that has ended stays so, and with it end the logins it opened. Raises NotFound."""
    owned = session.scalar(select(Token.id).where(Token.id == token_id, Token.person == person_id))
    if owned is None:
        raise NotFound(f"There is no token {token_id} among theirs. `derby token list` shows them.")
    session.execute(update(Token).where(Token.id == token_id, Token.revoked_at.is_(None)).values(revoked_at=_now()))


def revoke_own(session: Session, person: PersonInfo, name_or_id: str) -> TokenInfo:
    """End a token of one's own, by number or name; it, as it was. A token ends itself, and others that may do no more than it.

    Raises NotFound, NotAllowed.
    """
    own = tokens_of(session, person.id)
    found = next((t for t in own if str(t.id) == name_or_id), None) or next(
        (t for t in own if t.name == name_or_id and t.revoked_at is None), None)
    if found is None:
        raise NotFound(f"You have no token {one_line(name_or_id, 80)!r}. `derby token list` shows yours.")
    if found.id != person.token and (person.agent is not None or not set(found.scopes) <= set(person.scopes)):
        raise NotAllowed("This token may not revoke one that may do more than it, and an agent's revokes itself alone.")
    revoke_token(session, person.id, found.id)
    return found


def new_login_code(session: Session, person_id: int, token_id: int | None = None) -> str:
    """A code that opens one browser's login, once, within a day; by a token, the login may do no more than it. Raises NotFound."""
    get(session, person_id)
    return _new_session(session, person_id, "code", CODE_LIFE, token_id)


def redeem_code(session: Session, code: str) -> str | None:
    """The cookie for a login code, which ends with this; None for a code that is unknown, used or old. Raises Banned."""
    found = session.execute(
        update(WebSession).where(_alive("code", code)).values(revoked_at=_now()).returning(WebSession.person, WebSession.token)
    ).first()
    return None if found is None or found[0] is None else open_login(session, found[0], found[1])


def open_login(session: Session, person_id: int, token_id: int | None = None) -> str:
    """The cookie of a new browser login; by a token, it may do no more than that. Raises NotFound, Banned."""
    check_not_banned(session, person_id)
    return _new_session(session, person_id, "cookie", COOKIE_LIFE, token_id)


def check_not_banned(session: Session, person_id: int) -> None:
    """Raises Banned with the reason, NotFound."""
    row = session.get(Person, person_id)
    if row is None:
        raise NotFound(f"There is no person {person_id}.")
    if row.banned_at is not None:
        raise Banned(row.ban_reason)


def by_cookie(session: Session, cookie: str) -> PersonInfo | None:
    """Whose login that cookie is, unless it has ended, or the token that opened it was revoked. Raises Banned."""
    found = session.execute(
        select(Person, Token, WebSession.id).join(WebSession, WebSession.person == Person.id).outerjoin(Token, Token.id == WebSession.token)
        .where(_alive("cookie", cookie), or_(WebSession.token.is_(None), Token.revoked_at.is_(None)))
    ).first()
    return _with_token(*found) if found else None


def end_session(session: Session, cookie: str) -> None:
    """Log a browser out."""
    session.execute(update(WebSession).where(_alive("cookie", cookie)).values(revoked_at=_now()))


def _with_token(person: Person, token: Token | None, session_id: int | None = None) -> PersonInfo:
    if person.banned_at is not None:
        raise Banned(person.ban_reason)
    if token is None:
        return PersonInfo(id=person.id, name=person.name, role=person.role, session=session_id)
    return PersonInfo(id=person.id, name=person.name, role=person.role, scopes=tuple(token.scopes), token=token.id,
                      agent=token.name if token.agent else None, session=session_id)


def _new_session(session: Session, person_id: int, kind: str, life: timedelta, token_id: int | None) -> str:
    secret = secrets.token_urlsafe(32)
    now = _now()
    session.add(WebSession(person=person_id, kind=kind, hash=hashed(secret), token=token_id, created_at=now, expires_at=now + life))
    session.flush()
    return secret


def _alive(kind: str, secret: str) -> ColumnElement[bool]:
    return (
        (WebSession.kind == kind) & (WebSession.hash == hashed(secret)) & WebSession.revoked_at.is_(None) & (WebSession.expires_at > _now())
    )


def hashed(secret: str) -> str:
    """What is kept of a secret: its SHA-256 in hex."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC)
