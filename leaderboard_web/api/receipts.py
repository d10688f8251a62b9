"""Signed receipts, and the keys that they are checked with."""

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter

from kernelderby.core.receipt import NotSigned, receipt_of
from kernelderby.judge import contest_seeds
from kernelderby.leaderboard_web.api.wire import KeyList, KeyOut, SubmissionId
from kernelderby.leaderboard_web.door import Door, TheDoor, Viewer, submission_for
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import contests, signing_keys, submissions
from kernelderby.storage.submissions import SubmissionView

router = APIRouter(tags=["receipts"])


@router.get("/keys")
def keys(door: TheDoor) -> KeyList:
    """The public keys (Ed25519) that this platform ever signed receipts with."""
    with door.database.read() as session:
        found = signing_keys.listing(session)
    return KeyList(keys=[KeyOut(key_id=key.id, public=key.public, since=key.since) for key in found])


@router.get("/submissions/{submission}/receipt", responses=responses(401, 404))
def receipt(door: TheDoor, viewer: Viewer, submission: SubmissionId) -> dict[str, Any]:
    """The verdict as it was signed, with every timed block; `derby receipt verify` checks it. After the reveal of its contest with its
    seed."""
    view = submission_for(door, viewer, submission)
    with door.database.read() as session:
        said = submissions.verdict_json(session, submission)
    if said is None:
        raise NotSigned(f"Submission {submission} has no verdict yet, so there is no receipt. Ask again when it is done.")
    try:
        return {**receipt_of(said), **_reveal(door, view)}
    except NotSigned:
        raise NotSigned(f"The verdict of submission {submission} is not signed: it ended as {said.get('outcome')}, "
                        "and only what a judge finished gets a receipt.") from None


def _reveal(door: Door, view: SubmissionView) -> dict[str, Any]:
    """The seed, where its contest is revealed."""
    if view.contest_id is None:
        return {}
    with door.database.read() as session:
        info = contests.by_id(session, view.contest_id, datetime.now(UTC))
    if info.revealed_at is None:
        return {}
    return {"reveal": contest_seeds.reveal(door.settings, info.id, view.id, view.attempt)}
