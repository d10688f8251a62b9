"""The theme, chosen by a link and kept in a cookie."""

from fastapi import APIRouter
from starlette.responses import RedirectResponse

from kernelderby.core.errors import NotFound
from kernelderby.leaderboard_web.rendering import THEME_COOKIE, THEMES, local_path

router = APIRouter()
_YEAR_S = 365 * 24 * 3600


@router.get("/theme/{name}")
def choose(name: str, next: str = "/") -> RedirectResponse:
    """Keep the theme and go back."""
    if name not in THEMES:
        raise NotFound(f"There is no such theme. There are: {', '.join(THEMES)}.")
    response = RedirectResponse(local_path(next), 303)
    response.set_cookie(THEME_COOKIE, name, max_age=_YEAR_S, samesite="lax", httponly=True)
    return response
