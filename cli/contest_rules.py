"""What an organizer says of a contest on the command line, as the API takes it."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from kernelderby.core.errors import RequestError
from kernelderby.core.verdict import Mode

_LATER = re.compile(r"\+(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment(text: str, now: datetime) -> str:
    """A time as ISO 8601: `2030-01-31T18:00` (UTC unless it says a zone), or `+2h` from now. Raises RequestError."""
    if later := _LATER.fullmatch(text.strip()):
        return (now + timedelta(**{_UNITS[later[2]]: int(later[1])})).isoformat()
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise RequestError(f"{text[:40]!r} is no time. Write 2030-01-31T18:00 (UTC), or +2h, +30m, +3d from now.") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()


def boards(said: Sequence[str]) -> list[dict[str, Any]]:
    """`PROBLEM@DEVICE`, or `PROBLEM:VERSION@DEVICE` for a version that is not the current one. Raises RequestError."""
    return [_board(text) for text in said]


def quotas(said: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`MODE=RUNS[:GPU_SECONDS]` by mode; an empty number sets no limit. Raises RequestError."""
    found: dict[str, dict[str, Any]] = {}
    for text in said:
        mode, sep, limits = text.partition("=")
        runs, _, seconds = limits.partition(":")
        if not sep or mode not in [m.value for m in Mode]:
            raise RequestError(f"{text[:60]!r} is no quota. Write MODE=RUNS or MODE=RUNS:GPU_SECONDS, such as ranked=50:600.")
        found[mode] = {"runs": _number(runs, int, text), "gpu_seconds": _number(seconds, float, text)}
    return found


def _board(text: str) -> dict[str, Any]:
    problem, sep, device = text.rpartition("@")
    name, _, version = (problem if sep else text).partition(":")
    if not name or (sep and not device):
        raise RequestError(f"{text[:80]!r} names no board. Write PROBLEM@DEVICE, such as vector_add@cpu.")
    return {"problem": name, "device": device if sep else "cpu", **({"version": version} if version else {})}


def _number(text: str, kind: type[int] | type[float], whole: str) -> int | float | None:
    try:
        return kind(text) if text.strip() else None
    except ValueError:
        raise RequestError(f"{text[:20]!r} in {whole[:60]!r} is no number. Write MODE=RUNS or MODE=RUNS:GPU_SECONDS.") from None
