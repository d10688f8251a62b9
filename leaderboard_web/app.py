"""The web process: builds the app and nothing else."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from kernelderby.core.settings import Settings
from kernelderby.judge.queue import ring
from kernelderby.leaderboard_web import problem_json
from kernelderby.leaderboard_web.api import (
    accounts,
    admin,
    appeals,
    boards,
    contest_boards,
    contests,
    devices,
    duels,
    events,
    gates,
    heats,
    notices,
    people,
    problems,
    receipts,
    registrations,
    rejudge,
    submissions,
    teams,
    tokens,
)
from kernelderby.leaderboard_web.door import Door
from kernelderby.leaderboard_web.head import Heads
from kernelderby.leaderboard_web.pages import about, account, contest, entries, home, login, oauth, problem, submission, submit, theme
from kernelderby.leaderboard_web.problem_json import ProblemDetails
from kernelderby.leaderboard_web.rendering import STATIC, Pages
from kernelderby.leaderboard_web.security import Guard
from kernelderby.leaderboard_web.ticker import Ticker
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.database import connect

API = (
    submissions, events, duels, problems, boards, devices, contests, contest_boards, notices,
    registrations, teams, people, tokens, accounts, admin, receipts, rejudge, gates, appeals, heats)
PAGES = (home, problem, contest, submit, submission, entries, login, oauth, account, about, theme)
DESCRIPTION = """Send kernels, follow their judging, read boards.

Send a token as `Authorization: Bearer …`. Errors are `application/problem+json` with a sentence in `detail` that says what to do.
Times are µs unless a key says otherwise; numbers are finite or null."""


def create_app_from_env() -> FastAPI:
    """For `uvicorn --factory`: the app of the settings in the environment."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    return create_app(Settings.from_env())


def create_app(settings: Settings) -> FastAPI:
    """The app over the database of `settings`, which must be migrated."""
    app = _Described(title="Kernel Derby", version="1", description=DESCRIPTION, openapi_url="/api/openapi.json",
                     docs_url=None, redoc_url=None, lifespan=_lifespan)
    database = connect(settings.database)
    app.state.door = Door(settings=settings, database=database, artifacts=ArtifactStore(settings.artifacts),
                          ring=ring(settings), ticker=Ticker(database), pages=Pages())
    for module in API:
        app.include_router(module.router, prefix="/api/v1")
    for module in PAGES:
        app.include_router(module.router, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC))
    app.add_api_route("/healthz", _healthy, include_in_schema=False)
    problem_json.install(app)
    app.add_middleware(Heads)
    app.add_middleware(Guard, public_url=settings.public_url)
    return app


class _Described(FastAPI):
    """An app whose description also holds the form of its errors."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI description."""
        described = super().openapi()
        described["components"]["schemas"]["ProblemDetails"] = ProblemDetails.model_json_schema()
        return described


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    ticking = asyncio.create_task(app.state.door.ticker.run())
    yield
    ticking.cancel()
    with suppress(asyncio.CancelledError):
        await ticking


async def _healthy(request: Request) -> Response:
    return Response("ok\n", media_type="text/plain")
