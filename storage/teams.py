"""Teams: people who compete together. Whoever made one owns it; when the owner leaves, the member who is in it longest does."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from kernelderby.core.errors import NotAllowed, NotFound, RequestError
from kernelderby.core.text import one_line
from kernelderby.storage import invitations, people
from kernelderby.storage.contest_models import Contest, Member, Registration, Team
from kernelderby.storage.invitations import Code, Kind
from kernelderby.storage.models import Person, Submission
from kernelderby.storage.people import PersonInfo

MOST_MEMBERS = 20     # of one team
MOST_TEAMS = 20       # that one person is in


@dataclass(frozen=True, kw_only=True)
class TeamInfo:
    """A team and who is in it now."""

    id: int
    name: str
    owner_id: int | None               # None: nobody is left in it, or it became part of another
    members: tuple[tuple[int, str], ...]   # people.id and name, longest in it first
    merged_into: int | None            # teams.id

    @property
    def owner(self) -> str | None:
        """The owner's name."""
        return dict(self.members).get(self.owner_id) if self.owner_id else None

    def has(self, person_id: int) -> bool:
        """Whether someone is in it."""
        return any(number == person_id for number, _ in self.members)


def create(session: Session, name: str, person: PersonInfo, now: datetime) -> TeamInfo:
    """A team of one, its owner. Raises RequestError for a name that is none or taken, NotAllowed for an agent."""
    people.lock(session, person.id)
    check_no_agent(person)
    _check_room(session, person.id)
    shown = one_line(name, 80)
    if not any(c.isalpha() for c in shown):
        raise RequestError("A team's name needs at least one letter.")
    taken = RequestError(f"There is a team {shown!r} already. Choose another name.")
    if session.scalar(select(Team.id).where(func.lower(Team.name) == func.lower(shown))) is not None:
        raise taken
    row = Team(name=shown, owner=person.id, created_at=now)
    try:
        with session.begin_nested():     # someone may take the name at the same moment
            session.add(row)
    except IntegrityError:
        raise taken from None
    _add(session, row.id, person.id, now)
    return get(session, row.id)


def get(session: Session, team_id: int) -> TeamInfo:
    """The team by number. Raises NotFound."""
    row = session.scalar(select(Team).where(Team.id == team_id).execution_options(populate_existing=True))
    if row is None:
        raise NotFound(f"There is no team {team_id}. `derby team list` shows yours.")
    members = session.execute(
        select(Person.id, Person.name).join(Member, Member.person == Person.id)
        .where(Member.team == team_id, Member.left_at.is_(None)).order_by(Member.joined_at, Member.id)
    )
    found = tuple((number, name) for number, name in members)
    return TeamInfo(id=row.id, name=row.name, owner_id=row.owner if found else None, members=found, merged_into=row.merged_into)


def of_person(session: Session, person_id: int) -> list[TeamInfo]:
    """The teams someone is in, the one they joined first first."""
    own = select(Member.team).where(Member.person == person_id, Member.left_at.is_(None)).order_by(Member.joined_at, Member.id)
    return [get(session, team_id) for team_id in session.scalars(own).all()]


def invite(session: Session, team_id: int, person: PersonInfo, now: datetime) -> Code:
    """A code by which one person joins. Raises NotFound, NotAllowed unless its owner asks, RequestError where it is full."""
    team = _owned(session, team_id, person)
    _check_size(team, 1)
    return invitations.new(session, Kind.TEAM, team.id, person.id, now)


def join(session: Session, code: str, person: PersonInfo, now: datetime) -> TeamInfo:
    """Join the team of a code. Raises RequestError for a code that opens nothing, a full team, or who is in it already."""
    check_no_agent(person)
    people.lock(session, person.id)
    redeemed = invitations.redeem(session, Kind.TEAM, code, person.id, now)
    team = locked(session, redeemed.target)
    if not team.has(redeemed.made_by):
        raise RequestError("Whoever made this code has left the team since, or the team is no more. Ask its owner for a new code.")
    if team.has(person.id):
        raise RequestError(f"You are in the team {team.name!r} already. The code is still unused: give it to someone else.")
    _check_size(team, 1)
    _check_room(session, person.id)
    _add(session, team.id, person.id, now)
    return get(session, team.id)


def leave(session: Session, team_id: int, person: PersonInfo, now: datetime) -> TeamInfo:
    """Leave a team, and the contests by team that were entered for it and still go on; what was sent stays the team's. Raises NotFound."""
    check_no_agent(person)
    team = locked(session, team_id)
    if not team.has(person.id):
        raise NotFound(f"You are not in the team {team_id}. `derby team list` shows yours.")
    _end_membership(session, team.id, person.id, now)
    _leave_contests(session, team.id, person.id, now)
    if team.owner_id == person.id and (heir := next((number for number, _ in team.members if number != person.id), None)):
        session.execute(update(Team).where(Team.id == team.id).values(owner=heir))
    return get(session, team.id)


def merge_code(session: Session, team_id: int, person: PersonInfo, now: datetime) -> Code:
    """A code by which another team's owner makes that team a part of this one. Raises NotFound, NotAllowed, RequestError after a freeze."""
    team = _owned(session, team_id, person)
    _check_no_freeze(session, [team.id], now)
    return invitations.new(session, Kind.MERGE, team.id, person.id, now)


def merge(session: Session, team_id: int, code: str, person: PersonInfo, now: datetime) -> TeamInfo:
    """Make one's team a part of the code's: members, places and entries in contests that still go on move there. The team it is now.

    Raises NotFound, NotAllowed unless its owner asks, RequestError for a code that opens nothing or after a freeze.
    """
    check_no_agent(person)
    get(session, team_id)
    redeemed = invitations.redeem(session, Kind.MERGE, code, person.id, now)
    for number in sorted({team_id, redeemed.target}):      # in one order: two merges at once wait for each other, not for ever
        locked(session, number)
    mine, into = _owned(session, team_id, person), get(session, redeemed.target)
    if mine.id == into.id:
        raise RequestError("This code is of the same team. Its owner gives it to the owner of another one.")
    if into.owner_id != redeemed.made_by:
        raise RequestError("Whoever made this code does not own that team any more. Ask its owner for a new one.")
    newcomers = [number for number, _ in mine.members if not into.has(number)]
    _check_size(into, len(newcomers))
    _check_no_freeze(session, [mine.id, into.id], now)
    for number, _ in mine.members:
        _end_membership(session, mine.id, number, now)
    for number in newcomers:
        _add(session, into.id, number, now)
    _move_contests(session, mine.id, into.id, now)
    session.execute(update(Team).where(Team.id == mine.id).values(merged_into=into.id))
    return get(session, into.id)


def locked(session: Session, team_id: int) -> TeamInfo:
    """The team, which nobody else changes until the transaction ends. Raises NotFound."""
    session.execute(select(Team.id).where(Team.id == team_id).with_for_update())
    return get(session, team_id)


def check_no_agent(person: PersonInfo) -> None:
    """Raises NotAllowed for an agent's token: teams and places in contests are a person's."""
    if person.agent is not None:
        raise NotAllowed("An agent's token enters no team and no contest. Its person does that, logged in or with a token of their own.")


def _owned(session: Session, team_id: int, person: PersonInfo) -> TeamInfo:
    check_no_agent(person)
    team = locked(session, team_id)
    if team.owner_id != person.id:
        raise NotAllowed(f"Only its owner may do that with the team {team_id}." + (f" Ask {team.owner}." if team.has(person.id) else ""))
    return team


def _check_size(team: TeamInfo, more: int) -> None:
    if len(team.members) + more > MOST_MEMBERS:
        raise RequestError(f"A team has at most {MOST_MEMBERS} members; {team.name!r} would have {len(team.members) + more}.")


def _check_room(session: Session, person_id: int) -> None:
    teams = session.scalar(select(func.count()).select_from(Member).where(Member.person == person_id, Member.left_at.is_(None))) or 0
    if teams >= MOST_TEAMS:
        raise RequestError(f"You are in {teams} teams, and nobody is in more. Leave one first: `derby team leave TEAM`.")


def _check_no_freeze(session: Session, teams: list[int], now: datetime) -> None:
    """Who plays with whom is settled from a contest's freeze to its reveal; after that nothing of it moves any more."""
    too_late = session.scalar(
        select(Contest.name).join(Registration, Registration.contest == Contest.id)
        .where(Registration.team.in_(teams), Contest.revealed_at.is_(None), func.coalesce(Contest.freezes_at, Contest.ends_at) <= now)
        .order_by(Contest.id).limit(1)
    )
    if too_late is not None:
        raise RequestError(f"The contest {too_late!r}, which one of the teams entered, is frozen or over. Teams may merge again "
                           "once it is revealed.")


def _add(session: Session, team_id: int, person_id: int, now: datetime) -> None:
    session.add(Member(team=team_id, person=person_id, joined_at=now))
    session.flush()


def _end_membership(session: Session, team_id: int, person_id: int, now: datetime) -> None:
    session.execute(update(Member).where(Member.team == team_id, Member.person == person_id, Member.left_at.is_(None)).values(left_at=now))


def _leave_contests(session: Session, team_id: int, person_id: int, now: datetime) -> None:
    own = update(Registration).where(Registration.person == person_id, Registration.team == team_id)
    by_team = select(Contest.id).where(Contest.ends_at > now, Contest.by_team)
    by_person = select(Contest.id).where(Contest.ends_at > now, ~Contest.by_team)
    session.execute(own.where(Registration.contest.in_(by_team), Registration.withdrawn_at.is_(None)).values(withdrawn_at=now)
                    .execution_options(synchronize_session=False))
    session.execute(own.where(Registration.contest.in_(by_person)).values(team=None).execution_options(synchronize_session=False))


def _move_contests(session: Session, old: int, into: int, now: datetime) -> None:
    """Places first: whoever sends something at this moment holds theirs, and has it in the table once this is past."""
    going_on = select(Contest.id).where(Contest.ends_at > now)
    session.execute(update(Registration).where(Registration.team == old, Registration.contest.in_(going_on)).values(team=into)
                    .execution_options(synchronize_session=False))
    session.execute(update(Submission).where(Submission.team == old, Submission.contest.in_(going_on)).values(team=into)
                    .execution_options(synchronize_session=False))
