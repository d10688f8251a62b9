"""`derby worker`."""

import logging
from dataclasses import replace
from typing import Annotated

import typer

from kernelderby.cli import logs
from kernelderby.core import devices
from kernelderby.core.settings import Settings


def worker(
    device: Annotated[str, typer.Option("--device", "-d", metavar="D", help="The device class it judges for.")] = "cpu",
    gpu: Annotated[int | None, typer.Option("--gpu", metavar="N", min=0, help="For a GPU class: the GPU it judges on, as in /dev/nvidiaN. "
                                            "Without it, DERBY_GPU.")] = None,
) -> None:
    """Judge submissions of one device class, until it is ended. SIGTERM lets it finish or hand back its run."""
    known = devices.device(device)
    from kernelderby.judge.acceptance.here import need_gpu
    from kernelderby.judge.worker import run_worker

    logs.set_up(logging.INFO)
    settings = Settings.from_env()
    settings = settings if gpu is None else replace(settings, gpu=gpu)
    need_gpu(settings, known)
    run_worker(settings, known.name)
