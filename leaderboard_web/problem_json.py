"""Errors as answers: application/problem+json under /api, a page with the same sentence elsewhere."""

import errno
import logging
import re
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from kernelderby.core.errors import DerbyError, QuotaSpent, StorageUnavailable
from kernelderby.core.text import one_line
from kernelderby.leaderboard_web.headers import HEADERS

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}   # a file as it is
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_RETRY_AFTER_S = {503: "30"}
_SENTENCES = {
    404: "There is nothing at this address. The API is described at /api/openapi.json.",
    405: "This address does not take that method.",
    400: "The request could not be read. Send well-formed multipart/form-data or JSON.",
}


class ProblemDetails(BaseModel):
    """An error (RFC 9457). `detail` is a sentence that says what to do."""

    type: str = Field(examples=["urn:kernelderby:quota_spent"], description="Which kind of error, for programs.")
    title: str = Field(examples=["Quota spent"])
    status: int = Field(examples=[429])
    detail: str = Field(examples=["Your quota for this mode is spent for now."])


def install(app: FastAPI) -> None:
    """Answer every error of `app` in one place."""
    app.add_exception_handler(DerbyError, _derby_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(OperationalError, _storage_error)
    app.add_exception_handler(OSError, _storage_error)
    app.add_exception_handler(Exception, _our_fault)


def error_response(request: Request, problem: ProblemDetails) -> Response:
    """`problem` in the form that this address speaks."""
    headers = dict(HEADERS)   # an answer to our own failure is sent outside the guard
    if problem.status in _RETRY_AFTER_S:
        headers["Retry-After"] = _RETRY_AFTER_S[problem.status]
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if request.url.path.startswith("/api/"):
        return JSONResponse(problem.model_dump(), problem.status, headers=headers, media_type=MEDIA_TYPE)
    page: Response = request.app.state.door.pages.render(request, "error.html", status=problem.status, problem=problem)
    page.headers.update(headers)
    return page


def problem_of(error: DerbyError) -> ProblemDetails:
    """A domain error as an answer."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
    return _plain(error.status, name, error.message)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error answers of an operation, for its OpenAPI description. Any operation may also answer 400, 403, 413 and 422."""
    return {s: {"description": HTTPStatus(s).phrase, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}}
            for s in sorted({400, 403, 413, 422, *statuses})}


async def _derby_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, DerbyError)
    if error.status >= 500:
        log.error("platform error", exc_info=error, extra={"path": request.url.path})
    response = error_response(request, problem_of(error))
    if isinstance(error, QuotaSpent) and error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    return response


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = one_line(".".join(str(part) for part in first["loc"][1:]) or "the request", 80)
    return error_response(request, _plain(422, "invalid_request", f"{where}: {one_line(first['msg'])}."))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    sentence = _SENTENCES.get(error.status_code, one_line(error.detail))
    response = error_response(request, _plain(error.status_code, phrase.lower().replace(" ", "_"), sentence))
    response.headers.update(error.headers or {})
    return response


async def _storage_error(request: Request, error: Exception) -> Response:
    log.error("storage error", exc_info=error, extra={"path": request.url.path})
    is_known = isinstance(error, OperationalError) or getattr(error, "errno", None) in _NO_ROOM
    return error_response(request, problem_of(StorageUnavailable() if is_known else DerbyError()))


async def _our_fault(request: Request, error: Exception) -> Response:
    return error_response(request, problem_of(DerbyError()))   # the server logs the traceback after this answer


def _plain(status: int, kind: str, sentence: str) -> ProblemDetails:
    return ProblemDetails(type=f"urn:kernelderby:{kind}", title=kind.replace("_", " ").capitalize(), status=status, detail=sentence)
