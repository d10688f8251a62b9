"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from kernelderby.core.verdict import Mode

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
File = Annotated[Path, typer.Argument(help="The kernel: one .py or .cu file.", show_default=False)]
Problem = Annotated[str | None, typer.Option("--problem", "-p", metavar="P", help="The problem's name; else the file's header says it.")]
Device = Annotated[str | None, typer.Option("--device", "-d", metavar="D", help="The device class, such as cpu or h200.")]
TheMode = Annotated[Mode, typer.Option("--mode", "-m", help="How much of the judge to ask for.")]
Number = Annotated[int, typer.Argument(metavar="ID", min=1, help="The submission's number.", show_default=False)]


def is_number(text: str) -> bool:
    """Whether it can be a submission's number."""
    return text.isdecimal() and len(text) <= 19      # 64 bits
