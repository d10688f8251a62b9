"""Reading a submission from a request: a form with a file, or JSON."""

from typing import Any

from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from kernelderby.core.errors import RequestError
from kernelderby.core.text import one_line
from kernelderby.leaderboard_web.api.wire import SubmitJson

FIELDS = ("contest", "problem", "device", "mode", "licence", "ai_use")
_FIELD_LIMIT = 64 * 1024   # bytes of one form field that is not the file


class BadUpload(RequestError):
    """The request holds no submission. Send a form with the field `file`, or JSON with `file_name` and `source`."""


async def read_upload(request: Request) -> tuple[SubmitJson, bytes]:
    """The fields and the file's bytes. Raises BadUpload or SourceTooLarge."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return _from_json(await request.body())
    if kind == "multipart/form-data":
        return await read_form(request)
    raise BadUpload


async def read_form(request: Request) -> tuple[SubmitJson, bytes]:
    """The fields and the file of a form. Fields left empty count as not given."""
    try:
        async with request.form(max_files=1, max_fields=20, max_part_size=_FIELD_LIMIT) as form:
            request.state.fields = _given(form)
            file = form.get("file")
            if not isinstance(file, UploadFile) or not file.filename:
                raise BadUpload("No file was chosen. Send the kernel in the field `file`.")
            if unknown := sorted(set(form) - {*FIELDS, "file"}):
                raise BadUpload(f"There is no field {one_line(unknown[0], 60)!r}. The fields are: file, {', '.join(FIELDS)}.")
            return _checked({**request.state.fields, "file_name": _base_name(file.filename), "source": ""}), await file.read()
    except HTTPException as error:
        raise BadUpload(f"The form could not be read: {one_line(error.detail)}.") from None


def fields_read(request: Request) -> dict[str, str]:
    """The text fields that `read_form` found, to show the form again; nothing where it could not be read."""
    return getattr(request.state, "fields", {})


def _from_json(body: bytes) -> tuple[SubmitJson, bytes]:
    try:
        form = SubmitJson.model_validate_json(body)
    except ValidationError as error:
        raise BadUpload(_first(error)) from None
    return form.model_copy(update={"file_name": _base_name(form.file_name)}), form.source.encode()


def _checked(fields: dict[str, Any]) -> SubmitJson:
    try:
        return SubmitJson.model_validate(fields)
    except ValidationError as error:
        raise BadUpload(_first(error)) from None


def _given(form: FormData) -> dict[str, str]:
    return {name: value for name in FIELDS if isinstance(value := form.get(name), str) and value.strip()}


def _base_name(file_name: str) -> str:
    """The last part of a path, as one short printable line that keeps its suffix."""
    name = one_line(file_name.replace("\\", "/").rpartition("/")[2], 1000)
    return name[-120:] or "submission"


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    where = one_line(".".join(str(part) for part in first["loc"]) or "the JSON text", 80)
    return f"{where}: {one_line(first['msg'])}."
