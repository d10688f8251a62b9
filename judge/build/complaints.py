"""A compiler's complaints as sentences for the contestant: their own file and line first."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernelderby.core.text import clean_text, one_line

_COMPLAINT = re.compile(r"^(?P<file>[^\n(:]+?)(?:\((?P<nvcc>\d{1,10})\)|:(?P<line>\d{1,10})(?::\d{1,10})?)\s*: "
                        r"(?:fatal |catastrophic )?error\s?(?:#[\w-]+)?: ?(?P<what>[^\n]*)", re.MULTILINE)
_ANY = re.compile(r"^[^\n]*\b(?:error|undefined reference|died due to signal)\b[^\n]*", re.MULTILINE | re.IGNORECASE)
_NOISE = re.compile(r"^(?:ptxas info|Remark:)[^\n]*\n?|^ *\d+ bytes stack frame[^\n]*\n?", re.MULTILINE)
_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a compiled text stands in the contestant's file."""

    file: str
    first_line: int


def message_of(log: str, places: dict[str, Place]) -> str:
    """The first error in one of the contestant's own texts, else the first at all."""
    complaints = list(_COMPLAINT.finditer(log))
    own = next((c for c in complaints if c["file"] in places), None)
    if own:
        return _sentence(own, places[own["file"]])
    if complaints:
        return one_line(f"{complaints[0]['file'].rpartition('/')[2]}: {complaints[0]['what']}", _CHARACTERS)
    found = _ANY.search(log)
    return one_line(found[0], _CHARACTERS) if found else "The compiler failed without a word."


def log_of(texts: Sequence[str], places: dict[str, Place], limit: int) -> str:
    """All that the compilers said but what the report tells, with the contestant's own lines."""
    text = "\n".join(filter(None, (_NOISE.sub("", text).strip() for text in texts)))
    return clean_text(_COMPLAINT.sub(lambda c: _moved(c, places), text), limit)


def _moved(complaint: "re.Match[str]", places: dict[str, Place]) -> str:
    place = places.get(complaint["file"])
    return f"{_where(complaint, place)}: error: {complaint['what']}" if place else complaint[0]


def _sentence(complaint: "re.Match[str]", place: Place) -> str:
    return one_line(f"{_where(complaint, place)}: {complaint['what']}", _CHARACTERS)


def _where(complaint: "re.Match[str]", place: Place) -> str:
    return f"{place.file}:{int(complaint['nvcc'] or complaint['line']) + place.first_line - 1}"
