"""People, their tokens and their logins. Secrets are shown once and kept as SHA-256."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from kernelderby.core.errors import NotFound, RequestError
from kernelderby.core.text import one_line
from kernelderby.storage.models import Person, Token, WebSession

SCOPES = ("submit", "read", "organize")
ROLES = ("contestant", "organizer", "admin")
LOCAL_NAME = "local"                       # who owns a platform on one machine
CODE_LIFE = timedelta(hours=24)            # a login link that nobody opened
COOKIE_LIFE = timedelta(days=30)


@dataclass(frozen=True, kw_only=True)
class PersonInfo:
    """Who is asking, and what their token or login lets them do."""

    id: int
    name: str
    role: str                              # contestant, organizer, admin
    scopes: tuple[str, ...] = SCOPES       # of the token used; a login has all

    @property
    def is_organizer(self) -> bool:
        """Whether they may run the platform."""
        return self.role in ("organizer", "admin") and "organize" in self.scopes


@dataclass(frozen=True, kw_only=True)
class TokenInfo:
    """A token as its owner sees it later: without the secret."""

    id: int
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    revoked_at: datetime | None


def create(session: Session, name: str, role: str = "contestant") -> PersonInfo:
    """A new person. Raises RequestError for a name that is empty or taken, or an unknown role."""
    shown = one_line(name, 80)
    if not shown:
        raise RequestError("A person needs a name.")
    if role not in ROLES:
        raise RequestError(f"The role {role[:40]!r} is none of {', '.join(ROLES)}.")
    if session.scalar(select(Person.id).where(Person.name == shown)) is not None:
        raise RequestError(f"The name {shown!r} is taken.")
    row = Person(name=shown, role=role, created_at=_now())
    session.add(row)
    session.flush()
    return PersonInfo(id=row.id, name=row.name, role=row.role)


def get(session: Session, person_id: int) -> PersonInfo:
    """The person by number. Raises NotFound."""
    row = session.get(Person, person_id)
    if row is None:
        raise NotFound(f"There is no person {person_id}.")
    return PersonInfo(id=row.id, name=row.name, role=row.role)


def lock(session: Session, person_id: int) -> None:
    """Let nobody else that asks for this lock of the person pass until the transaction ends."""
    session.execute(select(Person.id).where(Person.id == person_id).with_for_update())


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


def new_token(session: Session, person_id: int, name: str, scopes: Sequence[str] = SCOPES) -> str:
    """A new token of a person: the only time its text is seen. Raises NotFound, or RequestError for an unknown scope."""
    get(session, person_id)
    if unknown := [s for s in scopes if s not in SCOPES]:
        raise RequestError(f"The scope {unknown[0][:40]!r} is none of {', '.join(SCOPES)}.")
    token = "derby_" + secrets.token_urlsafe(32)
    session.add(Token(person=person_id, name=one_line(name, 80), hash=_hash(token), scopes=list(scopes), created_at=_now()))
    session.flush()
    return token


def by_token(session: Session, token: str) -> PersonInfo | None:
    """Whose token that is, unless it was revoked."""
    found = session.execute(
        select(Person, Token.scopes).join(Token, Token.person == Person.id).where(Token.hash == _hash(token), Token.revoked_at.is_(None))
    ).first()
    if found is None:
        return None
    person, scopes = found
    return PersonInfo(id=person.id, name=person.name, role=person.role, scopes=tuple(scopes))


def tokens_of(session: Session, person_id: int) -> list[TokenInfo]:
    """All tokens a person ever had, newest first."""
    rows = session.scalars(select(Token).where(Token.person == person_id).order_by(Token.id.desc()))
    return [TokenInfo(id=t.id, name=t.name, scopes=tuple(t.scopes), created_at=t.created_at, revoked_at=t.revoked_at) for t in rows]


def revoke_token(session: Session, person_id: int, token_id: int) -> None:
    """End one of a person's tokens; one that has ended stays so. Raises NotFound."""
    owned = session.scalar(select(Token.id).where(Token.id == token_id, Token.person == person_id))
    if owned is None:
        raise NotFound(f"There is no token {token_id} among theirs. `derby token list PERSON` shows them.")
    session.execute(update(Token).where(Token.id == token_id, Token.revoked_at.is_(None)).values(revoked_at=_now()))


def new_login_code(session: Session, person_id: int) -> str:
    """A code that opens one browser's login, once, within a day. Raises NotFound."""
    get(session, person_id)
    return _new_session(session, person_id, "code", CODE_LIFE)


def redeem_code(session: Session, code: str) -> str | None:
    """The cookie for a login code, which ends with this; None for a code that is unknown, used or old."""
    person_id = session.scalar(
        update(WebSession).where(_alive("code", code)).values(revoked_at=_now()).returning(WebSession.person)
    )
    return None if person_id is None else _new_session(session, person_id, "cookie", COOKIE_LIFE)


def by_cookie(session: Session, cookie: str) -> PersonInfo | None:
    """Whose login that cookie is, unless it has ended."""
    person = session.scalar(select(Person).join(WebSession, WebSession.person == Person.id).where(_alive("cookie", cookie)))
    return PersonInfo(id=person.id, name=person.name, role=person.role) if person else None


def end_session(session: Session, cookie: str) -> None:
    """Log a browser out."""
    session.execute(update(WebSession).where(_alive("cookie", cookie)).values(revoked_at=_now()))


def _new_session(session: Session, person_id: int, kind: str, life: timedelta) -> str:
    secret = secrets.token_urlsafe(32)
    now = _now()
    session.add(WebSession(person=person_id, kind=kind, hash=_hash(secret), created_at=now, expires_at=now + life))
    session.flush()
    return secret


def _alive(kind: str, secret: str) -> ColumnElement[bool]:
    return (
        (WebSession.kind == kind) & (WebSession.hash == _hash(secret)) & WebSession.revoked_at.is_(None) & (WebSession.expires_at > _now())
    )


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC)
