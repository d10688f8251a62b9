"""Everything that is one person's, in plain JSON values, without the secrets."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelderby.storage import identities, people, submissions
from kernelderby.storage.contest_models import Appeal, Contest, Member, Notice, Registration, Team
from kernelderby.storage.models import Audit, Person, WebSession
from kernelderby.storage.submissions import SubmissionView

_PAGE = 50


def account(session: Session, person: int) -> dict[str, Any]:
    """All but the submissions: person, identities, tokens, sessions, teams, registrations, notices, appeals, actions. Raises NotFound."""
    people.get(session, person)
    row = session.get_one(Person, person)
    return {
        "person": _plain(row, "id", "name", "role", "created_at", "banned_at", "ban_reason"),
        "identities": [_plain(i, "provider", "subject", "name", "created_at") for i in identities.of_person(session, person)],
        "tokens": [_plain(t, "id", "name", "scopes", "agent", "runs", "gpu_seconds", "created_at", "revoked_at")
                   for t in people.tokens_of(session, person)],
        "sessions": [_plain(s, "id", "kind", "created_at", "expires_at", "revoked_at")
                     for s in session.scalars(select(WebSession).where(WebSession.person == person).order_by(WebSession.id))],
        "teams": [_plain(m, "joined_at", "left_at") | {"team": name} for m, name in session.execute(
            select(Member, Team.name).join(Team, Team.id == Member.team).where(Member.person == person).order_by(Member.id))],
        **_in_contests(session, person),
        "actions": [_plain(a, "at", "action", "detail")
                    for a in session.scalars(select(Audit).where(Audit.person == person).order_by(Audit.id))],
    }


def submission_pages(session: Session, person: int, before: int | None) -> list[SubmissionView]:
    """The next submissions of a person below the number `before`, newest first; [] at the end."""
    return submissions.recent(session, person=person, limit=_PAGE, before=before)


def submission(view: SubmissionView, source: str | None) -> dict[str, Any]:
    """One submission with its verdict and its source inline; None where the source is not kept any more."""
    return {
        **_plain(view, "id", "problem", "version", "device", "contest", "agent", "file_name", "licence", "ai_use", "door", "created_at",
                 "finished_at"),
        "mode": str(view.mode), "state": str(view.state), "verdict": view.verdict.model_dump(mode="json") if view.verdict else None,
        "source": source,
    }


def _in_contests(session: Session, person: int) -> dict[str, Any]:
    registrations = session.execute(select(Registration, Contest.name).join(Contest, Contest.id == Registration.contest)
                                    .where(Registration.person == person).order_by(Registration.at))
    notices = session.execute(select(Notice, Contest.name).join(Contest, Contest.id == Notice.contest)
                              .where(Notice.person == person).order_by(Notice.id))
    appeals = session.scalars(select(Appeal).where(Appeal.person == person).order_by(Appeal.id))
    return {
        "registrations": [_plain(r, "team", "contact", "at", "withdrawn_at") | {"contest": name} for r, name in registrations],
        "notices": [_plain(n, "kind", "text", "at", "answer", "answered_at", "public") | {"contest": name} for n, name in notices],
        "appeals": [_plain(a, "submission", "text", "at", "answer", "granted", "answered_at") for a in appeals],
    }


def _plain(row: object, *names: str) -> dict[str, Any]:
    return dict(_values(row, names))


def _values(row: object, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name in names:
        value = getattr(row, name)
        if isinstance(value, datetime):
            value = value.isoformat()
        yield name, list(value) if isinstance(value, tuple) else value
