"""`derby duel`: two entries against each other, by turns on one machine: two submissions on a server, or two files here."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelderby.cli.judge import job_of, tell
from kernelderby.cli.kernel_file import read_kernel
from kernelderby.cli.options import AsJson, Device, Problem, is_number
from kernelderby.cli.output import NOT_ACCEPTED, SENTENCES, print_json, say
from kernelderby.cli.server import Server
from kernelderby.core.duel import Duel, Side
from kernelderby.core.errors import RequestError
from kernelderby.core.scoring import LAUNCH_BOUND_US
from kernelderby.core.settings import Settings
from kernelderby.core.text import clean_text, one_line
from kernelderby.core.verdict import Mode, State

_LOOK_S = 1.0      # how often a server is asked whether a duel is over

Entry = Annotated[str, typer.Argument(metavar="ENTRY", help="A submission's number, or a file. Both of one kind.", show_default=False)]


def duel(
    a: Entry,
    b: Entry,
    problem: Problem = None,
    device: Device = None,
    seed: Annotated[str | None, typer.Option(metavar="TEXT", help="For files: draw the same inputs each time.")] = None,
    sandbox: Annotated[str | None, typer.Option(metavar="NAME", help="For files: bubblewrap, or none.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let two entries play by turns and say which one is faster: two accepted ranked submissions of one board, or two files here.

    For two files, P is a problem's name or the path of its folder. Ends with 0 when the duel was decided, a tie is an answer too.
    """
    if is_number(a) and is_number(b):
        data = _on_server(Server(Settings.from_env()), int(a), int(b))
        found, names = Duel.model_validate(data["result"]), (f"Submission {a}", f"Submission {b}")
    elif is_number(a) or is_number(b):
        raise RequestError("Name two submissions, or two files: a file and a submission do not meet on one machine.")
    else:
        found, names = _here(Path(a), Path(b), problem, device, seed, sandbox), (a, b)
        data = found.model_dump(mode="json")
    if as_json:
        print_json(data)
    else:
        print(clean_text("\n".join(duel_lines(found, *names))))
    raise typer.Exit(0 if found.is_decided else NOT_ACCEPTED)


def duel_lines(found: Duel, a: str, b: str) -> list[str]:
    """A duel's result for a person."""
    names: dict[Side, str] = {"a": one_line(a, 80), "b": one_line(b, 80)}
    if found.fallen:
        fallen = found.fallen
        gate = f" (gate {fallen.gate})" if fallen.gate else ""
        return [f"{names[fallen.entry]}: {SENTENCES[fallen.outcome]}{gate}. The duel ended there.", f"  {fallen.message}"]
    if found.void:
        return [f"The duel is void: {found.void}"]
    if found.ratio is None or found.ratio_ci is None:
        return [f"Undecided: every case takes less than {LAUNCH_BOUND_US:.0f} µs, where the start of a call weighs more than a kernel."]
    low, high = found.ratio_ci
    said = f"{names[found.faster]} is faster." if found.faster else "No difference shown."
    left_out = [f"  Left out, as too short: {', '.join(found.launch_bound)}."] if found.launch_bound else []
    return [said, f"  {names['a']} takes {_times(found.ratio)} times as long as {names['b']} (95 %: {_times(low)} to {_times(high)}), "
                  f"{found.problem} on {found.device}.", *left_out]


def _times(ratio: float) -> str:
    """With as many digits as tell two entries apart: near 1 a thousandth counts."""
    if 0.5 <= ratio <= 2:
        return f"{ratio:.4f}"
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _on_server(server: Server, a: int, b: int) -> dict[str, Any]:
    """The duel once it is done. Ctrl-C ends the waiting alone."""
    number = int(server.post("duels", "duel", a=a, b=b)["duel"])
    say(f"Duel {number}: it is played when no submission waits.")
    try:
        while True:
            data = server.get(f"duels/{number}", "state")
            if data["state"] == State.DONE:
                return data
            time.sleep(_LOOK_S)
    except KeyboardInterrupt:
        say(f"\nThe duel goes on. Its result will be at {server.url}/api/v1/duels/{number}")
        sys.exit(130)


def _here(a: Path, b: Path, problem: str | None, device: str | None, seed: str | None, sandbox: str | None) -> Duel:
    """The judge's own duel, without a server."""
    from kernelderby.judge.acceptance.certificate import runner_facts
    from kernelderby.judge.judging import open_judge

    settings = Settings.from_env()
    first, second = (job_of(settings, file.name, read_kernel(file), problem, device, Mode.RANKED, seed) for file in (a, b))
    if (first.problem.folder, first.device) != (second.problem.folder, second.device):
        raise RequestError("The two files' headers name different problems or devices. Say --problem P and --device D.")
    say("Starting the judge …")
    try:
        with open_judge(settings, sandbox or settings.sandbox, runner_facts(settings, first.device)) as judge:
            return judge.duel(first, second, tell, lambda: False)
    except KeyboardInterrupt:
        say("Stopped.")
        sys.exit(130)
