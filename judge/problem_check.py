"""Whether a problem folder is fit for a board: what it says, what its Python does, and what each bundled submission gets."""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelderby.core.devices import DeviceClass
from kernelderby.core.errors import ProblemBroken
from kernelderby.core.problem import hidden_specs
from kernelderby.core.problem_folder import Problem
from kernelderby.core.submission import SUFFIXES
from kernelderby.core.verdict import Mode, Outcome, Verdict
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge

_HEADER = re.compile(r"^\s*(?:#|//)\s*(mode|device):\s*(\w+)\s*$", re.MULTILINE)
_HEADER_CHARACTERS = 500      # a header stands at the top of the file


@dataclass(frozen=True, kw_only=True)
class CheckRow:
    """One thing that was checked."""

    what: str
    ok: bool
    message: str = ""         # what to do about it


@dataclass(frozen=True, kw_only=True)
class Bundled:
    """A file of the folder and the outcome it must get."""

    path: Path
    expected: Outcome
    mode: Mode
    device: str | None        # the class or kind that this holds for; None: every one

    @property
    def name(self) -> str:
        """Its place in the folder."""
        return f"{self.path.parent.name}/{self.path.name}"


def check_problem(problem: Problem, device: DeviceClass, judge: Judge, report: Callable[[CheckRow], None]) -> list[CheckRow]:
    """Every check of a problem on one class, each reported as it is done. Raises DerbyError only for what is not the problem's."""
    rows = []
    for row in _rows(problem, device, judge):
        report(row)
        rows.append(row)
    return rows


def bundled(problem: Problem, device: DeviceClass) -> list[Bundled]:
    """The submissions and starters of a folder that say something about a class. Raises ProblemBroken for an outcome that is none."""
    files = [_bundled(path) for path in sorted(problem.folder.glob("submissions/*/*")) if path.suffix in SUFFIXES]
    files += [_starter(path, device) for path in problem.starters.values() if path.suffix in SUFFIXES]
    return [file for file in files if file.device in (None, device.name, device.kind)]


def judge_bundled(file: Bundled, problem: Problem, device: DeviceClass, judge: Judge) -> Verdict:
    """The verdict on one of them, with a seed that is the same every time."""
    job = Job(submission=None, attempt=1, problem=problem, device=device, mode=file.mode, file_name=file.path.name,
              source=file.path.read_bytes(), seed=hashlib.sha256(file.name.encode()).digest())
    return judge.judge(job, lambda kind, data: None, lambda: False)


def _rows(problem: Problem, device: DeviceClass, judge: Judge) -> Iterator[CheckRow]:
    yield CheckRow(what="problem.yml", ok=True)        # read when the folder was
    yield _row("statement.md", list(_statement_faults(problem, device)))
    yield _row("starters", [] if problem.starters else ["Add starter.py or starter_torch.py: an entry that is right and easy to read."])
    try:
        seed = hashlib.sha256(problem.name.encode()).digest()
        for found in judge.inspect(problem, device, seed):
            yield CheckRow(**found)
        files = bundled(problem, device)
    except ProblemBroken as error:
        yield CheckRow(what="reference.py", ok=False, message=error.message)
        return
    if not any(file.expected is Outcome.ACCEPTED for file in files):
        yield CheckRow(what="submissions", ok=False, message="Add at least one submission to submissions/accepted/.")
    for file in files:
        yield _outcome_row(file, judge_bundled(file, problem, device, judge))
        judge.idle()


def _statement_faults(problem: Problem, device: DeviceClass) -> Iterator[str]:
    text = problem.statement
    if not text:
        yield "Write statement.md: the formula, shapes, and everything the contract leaves open otherwise."
        return
    names = [*problem.spec.inputs, *problem.spec.outputs]
    recipes = {spec.recipe for spec in hidden_specs(problem.spec, device) if spec.recipe}
    for name in [*names, *sorted(recipes)]:
        if f"`{name}`" not in text:
            yield f"The statement does not name `{name}`."
    for name, output in problem.spec.outputs.items():
        if output.base is not None and f"base {output.base}" not in text:
            yield f"The statement does not say that {name} is in base {output.base}."


def _bundled(path: Path) -> Bundled:
    folder = path.parent.name
    if folder not in set(Outcome):
        raise ProblemBroken(f"submissions/{folder} is named for no outcome. Outcomes: {', '.join(Outcome)}.")
    expected = Outcome(folder)
    says = dict(_HEADER.findall(path.read_text(errors="replace")[:_HEADER_CHARACTERS]))
    if says.get("mode", Mode.TEST) not in set(Mode):
        raise ProblemBroken(f"submissions/{folder}/{path.name} asks for the mode {says['mode']!r}. Modes: {', '.join(Mode)}.")
    mode = says.get("mode", Mode.RANKED if expected is Outcome.ACCEPTED else Mode.TEST)
    return Bundled(path=path, expected=expected, mode=Mode(mode), device=says.get("device"))


def _starter(path: Path, device: DeviceClass) -> Bundled:
    """A starter is accepted wherever it can run."""
    can_run = path.suffix == ".py" or device.arch is not None
    return Bundled(path=path, expected=Outcome.ACCEPTED if can_run else Outcome.REFUSED, mode=Mode.RANKED, device=None)


def _outcome_row(file: Bundled, verdict: Verdict) -> CheckRow:
    if verdict.outcome is file.expected:
        return CheckRow(what=file.name, ok=True)
    seen = f"{verdict.outcome} ({verdict.message})" if verdict.message else f"{verdict.outcome}"
    return CheckRow(what=file.name, ok=False, message=f"It must get {file.expected}, and got {seen}.")


def _row(what: str, faults: list[str]) -> CheckRow:
    return CheckRow(what=what, ok=not faults, message=" ".join(faults))
