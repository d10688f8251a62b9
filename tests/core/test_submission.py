"""The file a contestant sends."""

from pathlib import Path

import pytest

from kernelderby.core.errors import SourceTooLarge
from kernelderby.core.submission import LIMIT_BYTES, entry_sha, read_source

ROOT = Path(__file__).resolve().parents[2]


def test_a_file_may_be_as_large_as_the_limit_and_no_larger() -> None:
    assert read_source("k.py", b"#" * LIMIT_BYTES)
    with pytest.raises(SourceTooLarge):
        read_source("k.py", b"#" * (LIMIT_BYTES + 1))


@pytest.mark.parametrize("told", ["core/errors.py", "leaderboard_web/templates/pages/submit.html", "leaderboard_web/api/submissions.py"])
def test_the_limit_is_told_as_it_is(told: str) -> None:
    assert f"{LIMIT_BYTES / 2**20:g} MiB" in (ROOT / told).read_text()


SAME = [b"a\nb\n", b"a\r\nb\r\n", b"a\rb", b"a  \nb\t\n\n", b"\na\nb"]
OTHER = [b"a\n b\n", b"a\n\nb\n", b"ab\n", b"a\nB\n", b""]


def test_line_ends_and_trailing_blanks_make_no_other_entry() -> None:
    assert len({entry_sha(source) for source in SAME}) == 1
    assert len({entry_sha(source) for source in (SAME[0], *OTHER)}) == 1 + len(OTHER)
