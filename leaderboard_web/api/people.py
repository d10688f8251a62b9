"""/people."""

from fastapi import APIRouter

from kernelderby.leaderboard_web.api.wire import Me
from kernelderby.leaderboard_web.door import LoggedIn
from kernelderby.leaderboard_web.problem_json import responses

router = APIRouter(tags=["people"])


@router.get("/people/me", responses=responses(401))
def me(person: LoggedIn) -> Me:
    """Who you are."""
    return Me(id=person.id, name=person.name, role=person.role)
