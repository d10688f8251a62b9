"""`derby worker`."""

import logging
from typing import Annotated

import typer

from kernelderby.cli import logs
from kernelderby.core import devices
from kernelderby.core.settings import Settings


def worker(
    device: Annotated[str, typer.Option("--device", "-d", metavar="D", help="The device class it judges for.")] = "cpu",
) -> None:
    """Judge submissions of one device class, until it is ended. SIGTERM lets it finish or hand back its run."""
    known = devices.device(device)
    from kernelderby.judge.worker import run_worker

    logs.set_up(logging.INFO)
    run_worker(Settings.from_env(), known.name)
