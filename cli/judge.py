"""`derby judge`: the judge itself, here, without a server; the same code path as a worker."""

import contextlib
import hashlib
import secrets
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelderby.cli.kernel_file import read_kernel
from kernelderby.cli.options import AsJson, Device, File, Problem, TheMode
from kernelderby.cli.output import exit_status, print_json, print_verdict, say
from kernelderby.core import devices
from kernelderby.core.errors import RequestError
from kernelderby.core.settings import Settings
from kernelderby.core.submission import read_directives
from kernelderby.core.verdict import Mode, Verdict

if TYPE_CHECKING:
    from kernelderby.judge.job import Job


def judge(
    file: File,
    problem: Problem = None,
    device: Device = None,
    mode: TheMode = Mode.TEST,
    seed: Annotated[str | None, typer.Option(metavar="TEXT", help="Draw the same inputs and hidden cases each time.")] = None,
    sandbox: Annotated[str | None, typer.Option(metavar="NAME", help="bubblewrap, or none: for a file that you trust.")] = None,
    as_json: AsJson = False,
) -> None:
    """Judge a kernel on this machine. P is a problem's name, or the path of its folder."""
    source = read_kernel(file)
    say("Starting the judge …")
    verdict = run(job_of(Settings.from_env(), file.name, source, problem, device, mode, seed), sandbox)
    if as_json:
        print_json(verdict.model_dump(mode="json"))
    else:
        print_verdict(verdict, str(file))
    raise typer.Exit(exit_status(verdict))


def run(job: "Job", sandbox: str | None) -> Verdict:
    """Judge one job, with progress on stderr."""
    from kernelderby.judge.acceptance.certificate import runner_facts
    from kernelderby.judge.judging import open_judge

    settings = Settings.from_env()
    try:
        with open_judge(settings, sandbox or settings.sandbox, runner_facts(settings, job.device)) as the_judge:
            verdict = the_judge.judge(job, tell, lambda: False)
    except KeyboardInterrupt:
        say("Stopped.")
        sys.exit(130)
    return verdict.model_copy(update={"receipt": {**verdict.receipt, "signature": None}})   # no server vouches for it


def job_of(settings: Settings, name: str, source: bytes, problem: str | None, device: str | None, mode: Mode, seed: str | None) -> "Job":
    """What is to be judged: what is not said is taken from the file's header.

    Raises RequestError where that does not say it either, and NvmlUnavailable for a GPU class where there is no GPU.
    """
    from kernelderby.core.problem_folder import find_problem
    from kernelderby.judge.acceptance.here import need_gpu
    from kernelderby.judge.job import Job

    said = read_directives(source.decode())
    wanted = problem or said.problem
    if wanted is None:
        raise RequestError("Which problem? Say --problem P, or write a line `#!POPCORN leaderboard P` at the top of the file.")
    chosen = devices.device(device or (said.devices[0] if said.devices else "cpu"))
    need_gpu(settings, chosen)
    drawn = hashlib.sha256(seed.encode()).digest() if seed is not None else secrets.token_bytes(32)
    return Job(submission=None, attempt=1, problem=find_problem(wanted, settings.problems), device=chosen, mode=mode, file_name=name,
               source=source, seed=drawn)


def tell(kind: str, data: dict[str, Any]) -> None:
    """A step of a judging, on stderr."""
    from kernelderby.cli.watch import progress_line

    with contextlib.suppress(BrokenPipeError):
        if line := progress_line(kind, data):
            say(line)
