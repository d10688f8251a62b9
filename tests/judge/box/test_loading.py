"""What a source comes to when it is loaded."""

from pathlib import Path
from typing import Any

import pytest

from tests.judge.box.driver import Driver

GOOD = "def custom_kernel(data):\n    pass\n"


def test_the_harness_says_its_versions_when_it_is_ready(box: Driver) -> None:
    assert box.ready["op"] == "ready" and box.ready["nonce"] == 0
    assert all(box.ready["versions"][name] for name in ("python", "torch", "triton"))


def test_a_source_with_a_kernel_loads(box: Driver) -> None:
    assert box.load(GOOD) == {"op": "loaded", "has_plan": False}


def test_a_plan_is_seen(box: Driver) -> None:
    assert box.load(GOOD + "def plan(data):\n    pass\n") == {"op": "loaded", "has_plan": True}


def test_a_source_runs_as_the_module_submission_under_its_own_file_name(box: Driver) -> None:
    source = GOOD + "import sys, inspect\nassert __name__ == 'submission' and sys.modules['submission'].custom_kernel is custom_kernel\n" \
                    "assert __file__ == 'mine.py' and inspect.getsource(custom_kernel).startswith('def custom_kernel')\n"

    assert box.load(source, "mine.py")["op"] == "loaded"


def test_nothing_of_ours_but_the_harness_is_beside_a_submission(box: Driver) -> None:
    source = GOOD + "import sys\nours = {m for m in sys.modules if m.startswith('kernelderby')}\n" \
                    "assert all(m in ('kernelderby', 'kernelderby.judge') or m.startswith('kernelderby.judge.box') for m in ours), ours\n"

    assert box.load(source)["op"] == "loaded"


@pytest.mark.parametrize(("source", "kind", "line", "says"), [
    ("x = 1\n\ndef f(:\n", "syntax", 3, "invalid syntax"),
    ("def custom_kernel(data):\npass\n", "syntax", 2, "IndentationError"),
    (b"x = '\xff'\n", "syntax", None, "utf-8"),
    (b"x = 1\0\n", "syntax", None, "null bytes"),
    ("(" * 5000, "syntax", None, "nested"),
    ("", "missing_entry", None, "defines no function custom_kernel"),
    ("custom_kernel = 3\n", "missing_entry", None, "defines no function custom_kernel"),
    ("def my_custom_kernel(data):\n    pass\n", "missing_entry", None, "my_custom_kernel: was it meant?"),
    ("\ndef custom_kernel(a, b):\n    pass\n", "missing_entry", 2, "must take one argument"),
    ("import os\nimport flash_attn_9\n", "import", 2, "No module named 'flash_attn_9'"),
    ("from torch import no_such_name\n", "import", 1, "no_such_name"),
    ("x = 1\ny = x / 0\n", "exception", 2, "ZeroDivisionError: division by zero"),
    ("import sys\nsys.exit(3)\n", "exception", 2, "exit (status 3)"),
    ("def f():\n    f()\nf()\n", "exception", 2, "RecursionError"),
    ("import torch\ntorch.empty(2**50)\n", "memory", 2, "allocate"),
    ("raise MemoryError\n", "memory", 1, "MemoryError"),
], ids=lambda value: str(value)[:20].encode("ascii", "ignore").decode())
def test_a_source_that_does_not_load_says_why_and_where(
        box: Driver, source: str | bytes, kind: str, line: int | None, says: str) -> None:
    answer = box.load(source)

    assert (answer["op"], answer["kind"]) == ("error", kind), answer
    assert says in answer["message"], answer
    assert answer["line"] in ((line,) if line else (None, 1)), answer


def test_a_missing_module_points_to_the_list_of_installed_ones(box: Driver) -> None:
    assert "`derby env`" in box.load("import flash_attn_9\n")["message"]


@pytest.mark.parametrize("text", ["a" * 100_000, "\N{GRINNING FACE}" * 100_000, "\0\x1b" * 50_000], ids=["long", "astral", "control"])
def test_the_longest_texts_fit_on_a_line(box: Driver, text: str) -> None:
    answer = box.load(f"raise ValueError({text!r})\n")

    assert answer["kind"] == "exception" and 100 < len(answer["message"]) <= 2000 and len(answer["traceback"]) <= 8000


def test_an_exception_whose_text_breaks_is_still_told(box: Driver) -> None:
    source = "class Bad(Exception):\n    def __str__(self):\n        raise RuntimeError('no')\nraise Bad\n"

    assert box.load(source)["message"].startswith("Bad: ")


def test_an_end_ends_the_harness_and_the_log_has_what_was_printed(fresh_box: Driver, tmp_path: Path) -> None:
    fresh_box.load("print('printed', end='')\n" + GOOD)
    fresh_box.channel.send({"op": "end", "nonce": 99})

    assert fresh_box.process.wait(10) == 0
    assert fresh_box.log_path.read_text() == "printed"


def test_a_harness_without_a_referee_ends(fresh_box: Driver) -> None:
    fresh_box.channel.close()

    assert fresh_box.process.wait(10) == 0


def test_an_idle_harness_holds_at_most_200_mb_of_its_own(fresh_box: Driver) -> None:
    rollup: dict[str, Any] = dict(line.split(":", 1) for line in
                                  Path(f"/proc/{fresh_box.process.pid}/smaps_rollup").read_text().splitlines()[1:])

    assert int(rollup["Private_Dirty"].split()[0]) <= 200 * 1024
