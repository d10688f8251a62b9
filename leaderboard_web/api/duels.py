"""/duels: ask for one, read what it showed."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from kernelderby.core.duel import Duel
from kernelderby.core.verdict import State
from kernelderby.judge import intake
from kernelderby.leaderboard_web.api.wire import BIG
from kernelderby.leaderboard_web.door import Submitter, TheDoor, Viewer
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import duels, visibility

router = APIRouter(tags=["duels"])
DuelId = Annotated[int, Path(ge=1, le=BIG, examples=[3])]


class AskedDuel(BaseModel):
    """The two submissions: accepted, ranked, of one board. A contestant names one of their own."""

    model_config = ConfigDict(extra="forbid")
    a: int = Field(ge=1, le=BIG, examples=[12])
    b: int = Field(ge=1, le=BIG, examples=[13])


class DuelTicketOut(BaseModel):
    """A duel that was taken and stored."""

    duel: int = Field(examples=[3])
    url: str = Field(description="Where its result will be.", examples=["http://127.0.0.1:8000/api/v1/duels/3"])


class DuelOut(BaseModel):
    """A duel. `result` is null until `state` is `done`; `ratio` in it is a's score over b's, so below 1 a is faster."""

    duel: int
    a: int = Field(description="submission")
    b: int = Field(description="submission")
    device: str
    for_crown: bool = Field(description="Whether the board asked, before a takes the lead from b.")
    state: State
    created_at: datetime
    finished_at: datetime | None
    result: Duel | None


@router.post("/duels", status_code=201, responses=responses(401, 403, 404, 429))
def ask(door: TheDoor, person: Submitter, asked: AskedDuel) -> DuelTicketOut:
    """Have two entries play their blocks by turns on one runner. A contestant may ask once a day for each entry."""
    ticket = intake.duel(door.database, door.settings, person, asked.a, asked.b, door.ring)
    return DuelTicketOut(duel=ticket.duel, url=ticket.url)


@router.get("/duels/{duel}", responses=responses(401, 404))
def show(door: TheDoor, viewer: Viewer, duel: DuelId) -> DuelOut:
    """A duel and what it showed."""
    with door.database.read() as session:
        view = duels.view(session, duel)
        for entry in (view.a, view.b):
            visibility.submission(session, entry, viewer, datetime.now(UTC))
    return DuelOut(duel=view.id, a=view.a, b=view.b, device=view.device, for_crown=view.is_for_crown, state=view.state,
                   created_at=view.created_at, finished_at=view.finished_at, result=view.result)
