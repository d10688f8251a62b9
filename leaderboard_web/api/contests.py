"""/contests."""

from fastapi import APIRouter

from kernelderby.leaderboard_web.api.wire import ContestList

router = APIRouter(tags=["boards"])


@router.get("/contests")
def listing() -> ContestList:
    """The contests. There are none yet: every board is a practice board."""
    return ContestList(contests=[])
