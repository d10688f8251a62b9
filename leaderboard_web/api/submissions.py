"""/submissions: send, list, read, cancel."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from kernelderby.core.errors import NotLoggedIn
from kernelderby.core.verdict import State
from kernelderby.judge import intake
from kernelderby.leaderboard_web.api.table import CSV, csv_response
from kernelderby.leaderboard_web.api.upload import read_upload
from kernelderby.leaderboard_web.api.wire import (
    BIG,
    ProblemFilter,
    SubmissionId,
    SubmissionLine,
    SubmissionList,
    SubmissionOut,
    SubmitJson,
    TicketOut,
    left_out,
    request_of,
    submission_out,
)
from kernelderby.leaderboard_web.door import Door, Submitter, TheDoor, Viewer, may_see_source, require_source, submission_for
from kernelderby.leaderboard_web.problem_json import TEXT, responses
from kernelderby.storage import events, visibility
from kernelderby.storage.submissions import SubmissionView

router = APIRouter(tags=["submissions"])
Key = Annotated[str | None, Header(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$", examples=["3f1c9f66"], description=(
    "A text of your own for this submission. Sent again with the same request, it answers with the first submission; "
    "with another request, 409."))]
_FORM = {"type": "object", "required": ["file"], "properties": {
    "file": {"type": "string", "format": "binary", "description": "One UTF-8 file of at most 1 MiB, ending in .py or .cu."},
    **{name: {"type": "string"} for name in ("contest", "problem", "device", "licence", "ai_use")},
    "mode": {"type": "string", "enum": ["test", "benchmark", "ranked"], "default": "test"}}}
_BODY: dict[str, Any] = {"requestBody": {"required": True, "content": {
    "multipart/form-data": {"schema": _FORM},
    "application/json": {"schema": SubmitJson.model_json_schema(ref_template="#/components/schemas/{model}")}}}}


@router.post("/submissions", status_code=201, response_model=TicketOut, openapi_extra=_BODY, responses=responses(401, 404, 409, 410, 429))
async def submit(request: Request, door: TheDoor, person: Submitter, idempotency_key: Key = None) -> TicketOut:
    """Send a kernel. It is stored before this answers; what is not given is taken from the file's header lines."""
    form, source = await read_upload(request)
    ticket = await run_in_threadpool(intake.submit, door.database, door.artifacts, door.settings,
                                     request_of(form, source, person, key=idempotency_key, door="api"), door.ring)
    return TicketOut(submission=ticket.submission, url=ticket.url, problem=ticket.problem, device=ticket.device, mode=ticket.mode,
                     state=State.QUEUED, position=ticket.position, inferred=list(ticket.inferred), left=left_out(ticket.left))


@router.get("/submissions", responses=responses(401, 404))
def listing(door: TheDoor, viewer: Viewer, mine: bool = False, problem: ProblemFilter = None,
            limit: Annotated[int, Query(ge=1, le=100)] = 50, before: Annotated[int | None, Query(ge=1, le=BIG)] = None) -> SubmissionList:
    """The newest submissions: everyone's, or only yours, or of one problem."""
    if mine and viewer is None:
        raise NotLoggedIn
    if mine and viewer is not None:
        require_source(viewer, viewer.id)
    person = viewer.id if viewer and mine else None
    with door.database.read() as session:
        found = visibility.recent(session, viewer, datetime.now(UTC), person=person, problem=problem, limit=limit, before=before)
    return SubmissionList(submissions=[_line(door, v) for v in found], next=found[-1].id if len(found) == limit else None)


@router.get("/submissions/{submission}", responses=responses(401, 404))
def show(door: TheDoor, viewer: Viewer, submission: SubmissionId) -> SubmissionOut:
    """A submission's verdict, or how far it is."""
    view = submission_for(door, viewer, submission)
    with door.database.read() as session:
        why = events.judged_again(session, view.id)
    return submission_out(view, private=may_see_source(viewer, view.person_id)).model_copy(update={"judged_again": why})


@router.post("/submissions/{submission}/cancel", responses=responses(401, 404, 409))
def cancel(door: TheDoor, person: Submitter, submission: SubmissionId) -> SubmissionOut:
    """Stop a submission of yours. One that waits is cancelled at once, one that runs within a few seconds."""
    intake.cancel(door.database, person, submission)
    return show(door, person, submission)


@router.get("/submissions/{submission}/source", response_class=Response, responses=TEXT | responses(401, 404))
def source(door: TheDoor, viewer: Viewer, submission: SubmissionId) -> Response:
    """The file as it was sent; for its owner and the organizers, and for all where its contest opens sources at the reveal."""
    view = submission_for(door, viewer, submission)
    if not view.open_source:
        require_source(viewer, view.person_id)
    return Response(door.artifacts.get(view.source_sha), media_type="text/plain; charset=utf-8", headers={"Content-Disposition": "inline"})


@router.get("/submissions/{submission}/cases.csv", response_class=Response, responses=CSV | responses(401, 404))
def cases_csv(door: TheDoor, viewer: Viewer, submission: SubmissionId) -> Response:
    """The public cases of a verdict as CSV."""
    cases = show(door, viewer, submission).model_dump(mode="json")["cases"]
    return csv_response([_flat(case) for case in cases])


def _line(door: Door, view: SubmissionView) -> SubmissionLine:
    verdict = view.as_verdict()
    return SubmissionLine(
        submission=view.id, person=view.person, agent=view.agent, contest=view.contest, problem=view.problem, device=view.device,
        mode=view.mode, state=view.state, outcome=verdict.outcome, gate=verdict.gate, score_us=verdict.score_us, rank=verdict.rank,
        file_name=view.file_name, created_at=view.created_at, url=door.settings.address(f"/submissions/{view.id}"))


def _flat(case: dict[str, Any]) -> dict[str, Any]:
    low, high = case.pop("ci_us") or (None, None)
    return {**case, "ci_low_us": low, "ci_high_us": high}
