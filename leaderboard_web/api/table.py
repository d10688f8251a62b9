"""Tables as CSV."""

import csv
import io
from typing import Any

from starlette.responses import Response

from kernelderby.core.text import table_cell

CSV: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "A header line, then rows."}}


def csv_response(rows: list[dict[str, Any]]) -> Response:
    """`rows` as CSV with a header line; empty without rows."""
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows({key: table_cell(value) if isinstance(value, str) else value for key, value in row.items()} for row in rows)
    return Response(out.getvalue(), media_type="text/csv; charset=utf-8")
