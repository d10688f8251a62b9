"""/submissions/{id}/events: a stream, or a list to poll."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic_core import to_json
from starlette.responses import Response, StreamingResponse

from kernelderby.core.errors import RequestError
from kernelderby.core.verdict import State
from kernelderby.leaderboard_web.api.wire import EventList, EventOut, SubmissionId
from kernelderby.leaderboard_web.door import Door, TheDoor, Viewer, may_see_source, submission_for
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import events
from kernelderby.storage.events import Event
from kernelderby.storage.submissions import SubmissionView

router = APIRouter(tags=["submissions"])
KEEP_ALIVE_S = 15
LONGEST_WAIT_S = 30
_MOST_SEQ = 2**31 - 1
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": EventList, "content": {"text/event-stream": {"schema": {"type": "string"}, "example": (
        'id: 3\\nevent: check\\ndata: {"case":"tiny","done":1,"of":2,"outcome":"accepted"}\\n\\n')}}},
    204: {"description": "A stream was asked for, and nothing more will come: do not reconnect."},
    **responses(401, 404)}


@router.get("/submissions/{submission}/events", response_model=EventList, responses=_ANSWERS)
async def follow(request: Request, door: TheDoor, viewer: Viewer, submission: SubmissionId,
                 after: Annotated[int, Query(ge=0, le=_MOST_SEQ, description="Only events with a larger `seq`.")] = 0,
                 wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for a first event.")] = 0,
                 last_event_id: Annotated[str | None, Header(max_length=40, description="As browsers send it when they reconnect.")] = None,
                 ) -> Response:
    """The steps of a judging. With `Accept: text/event-stream` a stream that ends after the verdict; else a list."""
    view, private = await run_in_threadpool(_open, door, viewer, submission)
    if "text/event-stream" not in request.headers.get("accept", ""):
        found = await _poll(door, view, after, wait)
        shown = EventList(events=[_shown(event, private) for event in found])
        return Response(shown.model_dump_json(), media_type="application/json")   # which writes null for numbers that are not finite
    seq = max(after, _resume_at(last_event_id))
    if view.state is State.DONE and not await run_in_threadpool(_list, door, submission, seq):
        return Response(status_code=204)
    return StreamingResponse(_stream(door, submission, seq, private), media_type="text/event-stream",
                             headers={"X-Accel-Buffering": "no"})   # a proxy must not hold events back


async def _stream(door: Door, submission: int, seq: int, private: bool) -> AsyncIterator[str]:
    async with door.ticker.watch(submission, seq) as watcher:
        yield "retry: 1000\n\n"
        while True:
            event = await watcher.next(KEEP_ALIVE_S)
            if event is None:
                yield ": keep-alive\n\n"
                continue
            yield _frame(event, private)
            if event.kind == "verdict" and not watcher.has_more:   # a rejudged submission has older verdicts before its last
                return


async def _poll(door: Door, view: SubmissionView, after: int, wait_s: float) -> list[Event]:
    if not wait_s or view.state is State.DONE:
        return await run_in_threadpool(_list, door, view.id, after)
    async with door.ticker.watch(view.id, after) as watcher:
        first = await watcher.next(wait_s)
        return [first, *watcher.at_hand()] if first else []


def _open(door: Door, viewer: Viewer, submission: int) -> tuple[SubmissionView, bool]:
    view = submission_for(door, viewer, submission)
    return view, may_see_source(viewer, view.person_id)


def _list(door: Door, submission: int, after: int) -> list[Event]:
    with door.database.read() as session:
        return events.after(session, submission, after)


def _resume_at(last_event_id: str | None) -> int:
    if not last_event_id:
        return 0
    if not (last_event_id.isascii() and last_event_id.isdecimal()) or int(last_event_id) > _MOST_SEQ:
        raise RequestError("Last-Event-ID must be the `id` of an event of this stream. Leave it away to start from the first.")
    return int(last_event_id)


def _frame(event: Event, private: bool) -> str:
    """One event on the wire. ASCII JSON escapes every line break there is, so the data is one line whatever a contestant printed."""
    data = to_json(_data(event, private), ensure_ascii=True, inf_nan_mode="null").decode()
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n"


def _shown(event: Event, private: bool) -> EventOut:
    return EventOut(seq=event.seq, at=event.at, kind=event.kind, data=_data(event, private))


def _data(event: Event, private: bool) -> dict[str, Any]:
    """An event's data for this reader: what an entry printed is its owner's. The event itself stays, so that `seq` has no gaps."""
    if private:
        return event.data
    if event.kind == "log":
        return {"text": None}
    return {**event.data, "log": None} if event.kind == "verdict" else event.data
