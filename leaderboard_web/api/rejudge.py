"""/submissions/{submission}/rejudge: judge one again."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kernelderby.core.text import one_line
from kernelderby.judge import intake
from kernelderby.leaderboard_web.api.wire import SubmissionId, SubmissionOut, submission_out
from kernelderby.leaderboard_web.door import Organizer, TheDoor
from kernelderby.leaderboard_web.problem_json import responses

router = APIRouter(tags=["submissions"])


class Rejudging(BaseModel):
    """Why it is judged again; the audit log keeps it."""

    model_config = ConfigDict(extra="forbid")
    reason: Annotated[str, AfterValidator(one_line)] = Field("", max_length=500)


@router.post("/submissions/{submission}/rejudge", responses=responses(401, 404))
def rejudge(door: TheDoor, person: Organizer, submission: SubmissionId, asked: Rejudging | None = None) -> SubmissionOut:
    """Judge a finished submission again, as a new attempt, at nobody's cost; its verdict is open until then. For organizers."""
    view = intake.rejudge(door.database, person, submission, door.ring, asked.reason if asked else "")
    return submission_out(view, private=True)
