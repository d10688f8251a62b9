"""/submissions/{submission}/appeal, /contests/{contest}/appeals, /appeals/{appeal}: what is held against an entry's fall."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from kernelderby.leaderboard_web.api.contest_wire import ContestName
from kernelderby.leaderboard_web.api.wire import BIG, SubmissionId
from kernelderby.leaderboard_web.door import Organizer, Reader, Submitter, TheDoor, submission_for
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import appeals, audit, contests
from kernelderby.storage.appeals import AppealInfo
from kernelderby.storage.notices import LONGEST

router = APIRouter(tags=["contests"])
AppealId = Annotated[int, Path(ge=1, le=BIG, description="The appeal's number.", examples=[2])]


class Said(BaseModel):
    """What to say: an appeal, or its answer."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field(min_length=1, max_length=LONGEST)


class AppealOut(BaseModel):
    """An appeal. `granted` is null until it is answered; granted, the submission is judged again."""

    id: int
    contest: str
    submission: int
    person: str
    text: str
    at: datetime
    answer: str | None
    granted: bool | None
    answered_at: datetime | None
    outcome: str | None = Field(description="Of the submission now; null while it is judged again.")


class AppealList(BaseModel):
    """Newest first."""

    appeals: list[AppealOut]


@router.post("/submissions/{submission}/appeal", status_code=201, responses=responses(401, 404))
def appeal(door: TheDoor, person: Submitter, submission: SubmissionId, asked: Said) -> AppealOut:
    """Appeal for a ranked entry of yours in a contest that is not accepted. One appeal at a time."""
    submission_for(door, person, submission)
    with door.database.begin() as session:
        return _out(appeals.appeal(session, submission, person.id, asked.text, datetime.now(UTC)))


@router.get("/contests/{contest}/appeals", responses=responses(401, 404))
def listing(door: TheDoor, person: Reader, contest: ContestName) -> AppealList:
    """Your appeals in a contest; for organizers everybody's."""
    with door.database.read() as session:
        number = contests.get(session, contest, datetime.now(UTC)).id
        found = appeals.listing(session, number) if person.is_organizer else appeals.of_person(session, number, person.id)
    return AppealList(appeals=[_out(one) for one in found])


@router.post("/appeals/{appeal}/grant", responses=responses(401, 404))
def grant(door: TheDoor, person: Organizer, appeal: AppealId, asked: Said) -> AppealOut:
    """Grant an appeal: the entry is judged again, by the gates that its contest has now."""
    with door.database.begin() as session:
        found = appeals.grant(session, appeal, asked.text, datetime.now(UTC))
        audit.note(session, person.id, "appeal grant", appeal=appeal, submission=found.submission)
    door.ring(found.device)
    return _out(found)


@router.post("/appeals/{appeal}/deny", responses=responses(401, 404))
def deny(door: TheDoor, person: Organizer, appeal: AppealId, asked: Said) -> AppealOut:
    """Deny an appeal, with the reason."""
    with door.database.begin() as session:
        found = appeals.answer(session, appeal, asked.text, False, datetime.now(UTC))
        audit.note(session, person.id, "appeal deny", appeal=appeal, submission=found.submission)
    return _out(found)


def _out(one: AppealInfo) -> AppealOut:
    return AppealOut(id=one.id, contest=one.contest, submission=one.submission, person=one.person, text=one.text, at=one.at,
                     answer=one.answer, granted=one.granted, answered_at=one.answered_at, outcome=one.outcome)
