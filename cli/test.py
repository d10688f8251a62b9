"""`derby test`."""

import os
import sys
from typing import Annotated

import typer

from kernelderby.core.errors import SetupError
from kernelderby.core.settings import ROOT

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}   # --help and all else are pytest's


def test(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[PYTEST ARGUMENTS]", help="Paths from the checkout's root.")] = None,
) -> None:
    """Run every test, or those that the arguments choose."""
    if not (ROOT / "tests").is_dir():
        raise SetupError("The tests are in the checkout only. Run ./derby test there.")
    os.chdir(ROOT)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *(arguments or [])])
