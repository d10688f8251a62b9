"""Places in contests: who takes part, for which team, and where a prize would go."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, Select, select
from sqlalchemy.orm import Session

from kernelderby.core.contest import Stage
from kernelderby.core.errors import DeadlinePassed, NotAllowed, NotFound, RequestError
from kernelderby.core.text import one_line
from kernelderby.storage import invitations, people, teams
from kernelderby.storage.contest_models import Contest, Registration, Team
from kernelderby.storage.contests import ContestInfo
from kernelderby.storage.invitations import Code, Kind
from kernelderby.storage.models import Person, Submission
from kernelderby.storage.people import PersonInfo

CONTACT = {"name": 120, "email": 254, "country": 80}     # what a prize needs, and how many characters of it


@dataclass(frozen=True, kw_only=True)
class RegistrationInfo:
    """Someone's place in a contest."""

    person_id: int
    person: str
    team: int | None                # teams.id
    team_name: str | None
    contact: Mapping[str, str]      # name, email, country; for organizers and its person alone
    at: datetime
    withdrawn_at: datetime | None


def registration(session: Session, contest_id: int, person_id: int) -> RegistrationInfo | None:
    """Someone's place in a contest. None: they have none, or withdrew."""
    found = session.execute(_rows().where(Registration.contest == contest_id, Registration.person == person_id,
                                          Registration.withdrawn_at.is_(None))).first()
    return _info(found) if found else None


def listing(session: Session, contest_id: int) -> list[RegistrationInfo]:
    """Every place that was ever taken in a contest, with contacts: for organizers. The first one first."""
    return [_info(row) for row in session.execute(_rows().where(Registration.contest == contest_id)
                                                  .order_by(Registration.at, Registration.person))]


def register(
    session: Session, contest: ContestInfo, person: PersonInfo, team: int | None, contact: Mapping[str, str] | None, invitation: str | None,
    now: datetime,
) -> RegistrationInfo:
    """Take a place, or change one's team and contact (None: as it was). Once something was sent for a team, it stays that team.

    Raises DeadlinePassed after the end, NotAllowed without a code where one is needed, RequestError for a team that cannot be.
    """
    teams.check_no_agent(person)
    _check_not_over(contest)
    people.lock(session, person.id)
    row = session.get(Registration, (contest.id, person.id), with_for_update=True, populate_existing=True)
    _check_team(session, contest, person, team)
    if row is None:
        _check_invited(session, contest, person, invitation, now)
        row = Registration(contest=contest.id, person=person.id, contact={}, at=now)
        session.add(row)
    if row.withdrawn_at is not None:
        row.at, row.withdrawn_at = now, None
    row.team = team
    row.contact = _tidy(contact) if contact is not None else row.contact
    session.flush()
    return _place(session, contest.id, person.id)


def withdraw(session: Session, contest: ContestInfo, person: PersonInfo, now: datetime) -> RegistrationInfo:
    """Give up one's place before the end. What was sent stays, and no quota comes back. Raises NotFound, DeadlinePassed."""
    teams.check_no_agent(person)
    people.lock(session, person.id)
    row = session.get(Registration, (contest.id, person.id), with_for_update=True, populate_existing=True)
    if row is None or row.withdrawn_at is not None:
        raise NotFound(f"You are not registered in the contest {contest.name!r}.")
    _check_not_over(contest)
    row.withdrawn_at = now
    session.flush()
    return _place(session, contest.id, person.id)


def invite(session: Session, contest: ContestInfo, person: PersonInfo, count: int, now: datetime) -> list[Code]:
    """Codes that each let one person into a closed contest, made by an organizer. Raises NotAllowed, RequestError where none is needed."""
    if not person.is_organizer:
        raise NotAllowed("Only an organizer may invite to a contest, with a token that has the scope `organize`.")
    if not contest.rules.by_invitation:
        raise RequestError(f"The contest {contest.name!r} is open to everyone: `derby contest register {contest.name}`.")
    _check_not_over(contest)
    session.execute(select(Contest.id).where(Contest.id == contest.id).with_for_update(key_share=True))
    return [invitations.new(session, Kind.CONTEST, contest.id, person.id, now) for _ in range(count)]


def _check_not_over(contest: ContestInfo) -> None:
    if contest.stage in (Stage.ENDED, Stage.REVEALED):
        raise DeadlinePassed(f"The contest {contest.name!r} ended at {contest.rules.ends_at:%Y-%m-%d %H:%M} UTC.")


def _check_invited(session: Session, contest: ContestInfo, person: PersonInfo, invitation: str | None, now: datetime) -> None:
    if not contest.rules.by_invitation:
        return
    if not invitation:
        raise NotAllowed(f"The contest {contest.name!r} is by invitation. Ask its organizers for a code, then "
                         f"`derby contest register {contest.name} --invitation CODE`.")
    if invitations.redeem(session, Kind.CONTEST, invitation, person.id, now).target != contest.id:
        raise RequestError("This code is for another contest. It is still unused.")


def _check_team(session: Session, contest: ContestInfo, person: PersonInfo, team: int | None) -> None:
    if team is None and contest.rules.by_team:
        raise RequestError(f"In the contest {contest.name!r} teams compete; a team of one will do. `derby team create NAME` makes one, "
                           f"then `derby contest register {contest.name} --team NAME`.")
    if team is not None and not teams.locked(session, team).has(person.id):
        raise NotFound(f"You are in no team {team}. `derby team list` shows yours.")
    if contest.rules.by_team and team is not None and (bound := _bound_to(session, contest.id, person.id, team)) is not None:
        raise RequestError(f"You sent entries for the team {teams.get(session, bound).name!r} in this contest, so it is that team you can "
                           "enter for.")


def _bound_to(session: Session, contest_id: int, person_id: int, team: int) -> int | None:
    """Another team that someone sent something for: nobody has the quotas of two."""
    return session.scalar(select(Submission.team).where(
        Submission.contest == contest_id, Submission.person == person_id, Submission.replays.is_(None),
        Submission.team.is_not(None), Submission.team != team).limit(1))


def _tidy(contact: Mapping[str, str]) -> dict[str, str]:
    """The known parts, each one short line. Raises RequestError for what is no address of e-mail."""
    found = {part: said for part, most in CONTACT.items() if (said := one_line(contact.get(part, ""), most))}
    email = found.get("email", "a@b")
    if email.count("@") != 1 or email.startswith("@") or email.endswith("@") or " " in email:
        raise RequestError(f"{email[:60]!r} is no e-mail address. Give one such as name@example.org, or leave it out.")
    return found


def _place(session: Session, contest_id: int, person_id: int) -> RegistrationInfo:
    return _info(session.execute(_rows().where(Registration.contest == contest_id, Registration.person == person_id)).one())


def _rows() -> Select[Registration, str, str | None]:
    return (select(Registration, Person.name, Team.name).join(Person, Person.id == Registration.person)
            .outerjoin(Team, Team.id == Registration.team))


def _info(found: Row[Registration, str, str | None]) -> RegistrationInfo:
    row, person, team = found
    return RegistrationInfo(person_id=row.person, person=person, team=row.team, team_name=team, contact=row.contact, at=row.at,
                            withdrawn_at=row.withdrawn_at)
