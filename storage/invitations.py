"""Codes that open a team, a merge or a closed contest, once, within 7 days. Shown once and kept as SHA-256."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from kernelderby.core.errors import RequestError
from kernelderby.storage.contest_models import Invitation
from kernelderby.storage.people import hashed

LIFE = timedelta(days=7)


class Kind(StrEnum):
    """What a code is for. It begins with its kind, so one for a team's new member merges no teams."""

    TEAM = "team"
    MERGE = "merge"
    CONTEST = "contest"


MOST_WAITING = {Kind.TEAM: 50, Kind.MERGE: 50, Kind.CONTEST: 2000}     # codes of one team, or contest, that nobody used yet


@dataclass(frozen=True, kw_only=True)
class Code:
    """A new code: the only time its text is seen."""

    text: str
    expires_at: datetime


@dataclass(frozen=True, kw_only=True)
class Redeemed:
    """What a code opened."""

    target: int                # teams.id or contests.id
    made_by: int               # people.id


def new(session: Session, kind: Kind, target: int, made_by: int, now: datetime) -> Code:
    """A code for a team (TEAM, MERGE) or a contest. Raises RequestError where too many wait to be used."""
    for_contest = kind is Kind.CONTEST
    waiting = session.scalar(select(func.count()).select_from(Invitation).where(
        (Invitation.contest if for_contest else Invitation.team) == target, Invitation.used_at.is_(None), Invitation.expires_at > now)) or 0
    if waiting >= MOST_WAITING[kind]:
        raise RequestError(f"{waiting} codes wait to be used already. Give those out, or wait until they expire.")
    text = f"{kind}_{secrets.token_urlsafe(24)}"
    session.add(Invitation(team=None if for_contest else target, contest=target if for_contest else None, hash=hashed(text),
                           made_by=made_by, created_at=now, expires_at=now + LIFE))
    session.flush()
    return Code(text=text, expires_at=now + LIFE)


def redeem(session: Session, kind: Kind, code: str, person_id: int, now: datetime) -> Redeemed:
    """Use up a code, unless its transaction fails later. Raises RequestError for one that is unknown, used, old or for something else."""
    text = code.strip()
    other = next((k for k in Kind if k is not kind and text.startswith(f"{k}_")), None)
    if other is not None:
        raise RequestError(f"This code is not for this: it is one for {_USE[other]}")
    alive: ColumnElement[bool] = (Invitation.hash == hashed(text)) & Invitation.used_at.is_(None) & (Invitation.expires_at > now)
    found = session.execute(
        update(Invitation).where(alive).values(used_at=now, used_by=person_id)
        .returning(Invitation.team, Invitation.contest, Invitation.made_by).execution_options(synchronize_session=False)
    ).first()
    if found is None or not text.startswith(f"{kind}_"):
        raise RequestError("This code is not known, was used already, or is older than 7 days. Ask whoever gave it to you for a new one.")
    team, contest, made_by = found
    return Redeemed(target=contest or team or 0, made_by=made_by)


_USE = {
    Kind.TEAM: "joining a team. Use it with `derby team join CODE`.",
    Kind.MERGE: "merging two teams. Their owner uses it with `derby team merge TEAM --code CODE`.",
    Kind.CONTEST: "a closed contest. Use it with `derby contest register NAME --invitation CODE`.",
}
