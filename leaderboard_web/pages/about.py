"""Pages that explain: how we measure, the API."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from kernelderby.leaderboard_web.door import TheDoor, Viewer

router = APIRouter()


@router.get("/measure")
def measure(request: Request, door: TheDoor, viewer: Viewer) -> Response:
    """How right, time and rank are found."""
    return door.pages.render(request, "measure.html")


@router.get("/api")
def api(request: Request, door: TheDoor, viewer: Viewer) -> Response:
    """The API in words, from its own description."""
    operations = [{"method": method.upper(), "path": path, "says": operation.get("description", "")}
                  for path, methods in request.app.openapi()["paths"].items() for method, operation in methods.items()]
    return door.pages.render(request, "api.html", operations=operations, url=door.settings.address(""))
