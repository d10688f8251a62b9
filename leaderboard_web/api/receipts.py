"""Signed receipts, and the keys that they are checked with."""

from typing import Any

from fastapi import APIRouter

from kernelderby.core.receipt import NotSigned, receipt_of
from kernelderby.leaderboard_web.api.wire import KeyList, KeyOut, SubmissionId
from kernelderby.leaderboard_web.door import TheDoor
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import signing_keys, submissions

router = APIRouter(tags=["receipts"])


@router.get("/keys")
def keys(door: TheDoor) -> KeyList:
    """The public keys (Ed25519) that this platform ever signed receipts with."""
    with door.database.read() as session:
        found = signing_keys.listing(session)
    return KeyList(keys=[KeyOut(key_id=key.id, public=key.public, since=key.since) for key in found])


@router.get("/submissions/{submission}/receipt", responses=responses(404))
def receipt(door: TheDoor, submission: SubmissionId) -> dict[str, Any]:
    """The verdict as it was signed, with every timed block; `derby receipt verify` checks it."""
    with door.database.read() as session:
        said = submissions.verdict_json(session, submission)
    if said is None:
        raise NotSigned(f"Submission {submission} has no verdict yet, so there is no receipt. Ask again when it is done.")
    try:
        return receipt_of(said)
    except NotSigned:
        raise NotSigned(f"The verdict of submission {submission} is not signed: it ended as {said.get('outcome')}, "
                        "and only what a judge finished gets a receipt.") from None
