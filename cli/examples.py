"""What `derby up --once` judges: accepted submissions that come with the problems, a starter on each class of GPU; sent like anyone's."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kernelderby.cli.output import exit_status, number, places, ratio, table
from kernelderby.cli.server import Server
from kernelderby.cli.watch import verdict_of, wait_for
from kernelderby.core.devices import CPU, DeviceClass
from kernelderby.core.problem import public_cases
from kernelderby.core.problem_folder import load_problem, problem_folders
from kernelderby.core.verdict import Verdict

Example = tuple[str, Path, str]    # problem, file, device class
SHOWN_WHOLE = "vector_add"    # a Triton entry of the others takes the interpreter as long as all the rest
FIELDS = {"mode": "ranked", "licence": "Apache-2.0", "ai_use": "none"}


def judge_examples(server: Server, problems: Path, classes: Sequence[DeviceClass], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Send every example as a ranked entry; their verdicts when all are done."""
    tickets = []
    for problem, file, device in (*examples(problems), *gpu_examples(problems, classes)):
        ticket = server.submit(file.name, file.read_bytes(), {**FIELDS, "problem": problem, "device": device})
        say(f"Submission {ticket['submission']}: {problem} on {device}, {file.name}")
        tickets.append(int(ticket["submission"]))
    return [_wait(server, submission, say) for submission in tickets]


def _wait(server: Server, submission: int, say: Callable[[str], None]) -> dict[str, Any]:
    data = wait_for(server, submission, hear=lambda step: None)
    say(f"Submission {submission}: {data['outcome']}")
    return data


def examples(problems: Path) -> Iterator[Example]:
    """One accepted submission of each problem; of the shortest problem all, so that a Triton entry is seen too."""
    for folder in problem_folders(problems):
        name = load_problem(folder).name
        accepted = sorted((folder / "submissions" / "accepted").glob("*.py"))
        yield from ((name, file, CPU.name) for file in (accepted if name == SHOWN_WHOLE else accepted[:1]))


def gpu_examples(problems: Path, classes: Sequence[DeviceClass]) -> Iterator[Example]:
    """The shortest problem's Triton starter on each class of GPU."""
    for folder in problem_folders(problems):
        problem = load_problem(folder)
        if problem.name == SHOWN_WHOLE:
            yield from ((problem.name, folder / "starter.py", d.name) for d in classes if d.arch and public_cases(problem.spec, d))


def example_lines(board: list[dict[str, Any]]) -> list[str]:
    """The verdicts as a table."""
    return table(("problem", "submission", "outcome", "score µs", "× baseline", "rank", "took s"), map(_row, map(verdict_of, board)))


def worst_status(board: list[dict[str, Any]]) -> int:
    """0 where each was accepted."""
    return max((exit_status(verdict_of(v)) for v in board), default=1)


def _row(v: Verdict) -> tuple[str, ...]:
    took = number(v.stages_s.get("total"))
    problem = v.problem if v.device == CPU.name else f"{v.problem} on {v.device}"
    return (problem, str(v.submission), str(v.outcome), number(v.score_us), ratio(v.speedup), places(v.rank), took)
