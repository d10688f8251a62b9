"""`derby problem`: what organizers and problem authors do."""

import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelderby.cli.options import AsJson
from kernelderby.cli.output import NOT_ACCEPTED, print_json, say, table
from kernelderby.core import devices
from kernelderby.core.errors import RequestError
from kernelderby.core.problem import NAME, NAME_RULE
from kernelderby.core.settings import Settings

if TYPE_CHECKING:
    from kernelderby.judge.problem_check import CheckRow

NameOrPath = Annotated[str, typer.Argument(metavar="P", help="A problem's name, or the path of its folder.", show_default=False)]
Name = Annotated[str, typer.Argument(metavar="P", help="A problem's name.", show_default=False)]
Device = Annotated[str, typer.Option("--device", "-d", metavar="D", help="The device class.")]


def build() -> typer.Typer:
    """The commands below `derby problem`."""
    app = typer.Typer(no_args_is_help=True, help="Make, check and add problems; open and close their boards.")
    for command in (new, check, add, open_, close):
        app.command(command.__name__.rstrip("_"))(command)
    return app


def check(problem: NameOrPath, device: Device = "cpu", as_json: AsJson = False) -> None:
    """Hold a problem to its promises: each bundled submission gets the outcome of its folder, the reference is sound."""
    from kernelderby.core.problem_folder import find_problem
    from kernelderby.judge.acceptance.here import need_gpu
    from kernelderby.judge.judging import open_judge
    from kernelderby.judge.problem_check import check_problem

    settings = Settings.from_env()
    found, chosen = find_problem(problem, settings.problems), devices.device(device)
    need_gpu(settings, chosen)
    with open_judge(settings, settings.sandbox) as judge:
        rows = check_problem(found, chosen, judge, lambda row: say(_line(row)))
    sound = all(row.ok for row in rows)
    if as_json:
        print_json({"problem": found.name, "version": found.version, "sound": sound, "checks": [asdict(row) for row in rows]})
    else:
        print(f"{found.name}: {sum(r.ok for r in rows)} of {len(rows)} checks hold.")
    raise typer.Exit(0 if sound else NOT_ACCEPTED)


def add(
    problem: NameOrPath,
    device: Annotated[list[str] | None, typer.Option("--device", "-d", metavar="D", help="Open its board; repeatable.")] = None,
    closed: Annotated[bool, typer.Option("--closed", help="Its boards take nothing yet: a secret, for a contest.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put a problem on the platform, or its new version."""
    from kernelderby.cli.data_folder import add_closed_problem, add_problem
    from kernelderby.cli.organizer import opened
    from kernelderby.core.problem_folder import find_problem

    settings = Settings.from_env()
    found = find_problem(problem, settings.problems)
    with opened(settings) as database:
        put = add_closed_problem if closed else add_problem
        info = put(settings, database, found, [devices.device(d) for d in device or ["cpu"]])
    if as_json:
        print_json({"problem": info.name, "version": info.version, "gate_set": info.gate_set, "devices": list(info.devices)})
        return
    row = (info.name, info.version, info.gate_set, " ".join(info.devices))
    print("\n".join(table(("problem", "version", "gate set", "devices"), [row])))


def new(
    path: Annotated[Path, typer.Argument(metavar="FAMILY/NAME", help="Its family and name, below problems/.", show_default=False)],
    like: Annotated[str, typer.Option(metavar="P", help="The problem to begin from.")] = "vector_add",
) -> None:
    """Begin a problem as a copy of one that works."""
    from kernelderby.core.problem_folder import find_problem

    settings = Settings.from_env()
    if len(path.parts) != 2 or path.is_absolute() or ".." in path.parts:
        raise RequestError(f"Say family and name, such as attention/my_decode; {str(path)[:80]!r} is something else.")
    if bad := [part for part in path.parts if not NAME.fullmatch(part)]:
        raise RequestError(f"{bad[0][:80]!r} will not do: {NAME_RULE}.")
    model, (family, name) = find_problem(like, settings.problems), path.parts
    folder, baseline = settings.problems / path, settings.problems.parent / "reference_kernels" / name / "baseline.py"
    if folder.exists() or baseline.parent.exists():
        raise RequestError(f"{folder if folder.exists() else baseline.parent} is there already. Choose another name.")
    shutil.copytree(model.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    baseline.parent.mkdir(parents=True)
    shutil.copy(model.baseline, baseline)
    for file in (p for p in folder.rglob("*") if p.is_file()):
        file.write_text(file.read_text().replace(model.name, name))
    spec = folder / "problem.yml"
    spec.write_text(spec.read_text().replace(f"family: {model.spec.family}", f"family: {family}"))
    print(f"{folder} is a copy of {model.name}, and {baseline} its baseline.\n"
          f"Change problem.yml, reference.py, the statement, the starters and submissions/, then: derby problem check {name}")


def open_(
    problem: Name,
    until: Annotated[datetime | None, typer.Option(metavar="TIME", help="Close it by itself then, in UTC: 2030-01-31T18:00:00.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let a problem's boards take submissions, for good or until a time."""
    _set_open(problem, True, until and until.replace(tzinfo=UTC), as_json)


def close(problem: Name, as_json: AsJson = False) -> None:
    """Let a problem's boards take no more submissions. What waits is still judged."""
    _set_open(problem, False, None, as_json)


def _set_open(problem: str, is_open: bool, until: datetime | None, as_json: bool) -> None:
    from kernelderby.cli.organizer import opened
    from kernelderby.storage import problems

    with opened(Settings.from_env()) as database, database.begin() as session:
        info = problems.set_open(session, problem, is_open, until)
    if as_json:
        print_json({"problem": info.name, "open": info.open, "closes_at": info.closes_at and info.closes_at.isoformat()})
    elif info.open:
        print(f"{info.name} is open" + (f" until {info.closes_at:%Y-%m-%d %H:%M} UTC." if info.closes_at else "."))
    else:
        print(f"{info.name} is closed. Open it again: derby problem open {info.name}")


def _line(row: "CheckRow") -> str:
    return f"  {'ok' if row.ok else 'WRONG':6} {row.what}{': ' if row.message else ''}{row.message}"
