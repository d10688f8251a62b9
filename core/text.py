"""Text that came from a contestant, made safe to store and to show."""

import unicodedata

_BIDI = {chr(c) for c in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)}


def clean_text(text: object, limit: int = 2000) -> str:
    """At most `limit` characters of `text`, without control, bidirectional and unpaired-surrogate characters; tabs and newlines stay.

    What was cut is marked by a trailing `…`. Escaping for HTML, a terminal or Discord is each door's own duty.
    """
    raw = str(text)
    kept = "".join(c if _is_plain(c) else "\N{REPLACEMENT CHARACTER}" for c in raw[: limit + 1])
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"


def one_line(text: object, limit: int = 200) -> str:
    """`clean_text` with every run of white space folded to one blank."""
    return " ".join(clean_text(text, limit).split())


def table_cell(text: str) -> str:
    """`text` for a CSV file: what a spreadsheet would run as a formula gets a quote before it."""
    return f"'{text}" if text[:1] in tuple("=+-@\t") else text


def _is_plain(character: str) -> bool:
    return character in "\n\t" or (unicodedata.category(character) not in ("Cc", "Cs") and character not in _BIDI)
