"""`derby doctor`: each part, whether it works here, what to do, what works without it."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import typer

from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json
from kernelderby.core.errors import OUR_FAULT
from kernelderby.core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Check:
    """One part."""

    part: str
    works: bool | None        # None: not here, and not needed for the rest
    found: str
    fix: str | None = None    # what to do
    still: str | None = None  # what works without it


def doctor(as_json: AsJson = False) -> None:
    """Say which parts of the platform work on this machine, and what to do about the others."""
    settings = Settings.from_env()
    checks = list(_all(settings))
    sound = all(c.works is not False for c in checks)
    if as_json:
        print_json({"works": sound, "checks": [asdict(c) for c in checks]})
    else:
        print("\n".join(line for check in checks for line in _lines(check)))
        print("\nEverything needed is here." if sound else "\nSomething is missing; see above what to do.")
    raise typer.Exit(0 if sound else OUR_FAULT)


def _all(settings: Settings) -> Iterator[Check]:
    from kernelderby.cli import machine_checks

    yield from machine_checks.run()
    yield from _guarded("sandbox", lambda: [_toolkit(), *_sandbox(settings)])
    yield from _guarded("certificate", lambda: _runner(settings))
    yield from _guarded("services", lambda: _services(settings))


def _guarded(part: str, run: Callable[[], list[Check]]) -> list[Check]:
    """On a thin client the server's libraries are missing, which is no fault."""
    try:
        return run()
    except ImportError as error:
        return [Check(part=part, works=None, found=f"not installed ({error.name} is missing)",
                      fix="run ./derby in a checkout, which installs everything",
                      still="the commands that talk to a server: submit, watch, show, board, problems, init")]


def _services(settings: Settings) -> list[Check]:
    from kernelderby.cli import service_checks

    return list(service_checks.run(settings))


def _runner(settings: Settings) -> list[Check]:
    from kernelderby.cli import runner

    return runner.state(settings)


def _toolkit() -> Check:
    from kernelderby.judge.acceptance.here import toolkit

    found = toolkit()
    if found.cuda and found.gxx:
        return Check(part="CUDA toolkit", works=True, found=str(found.cuda))
    fix = "apt-get install g++" if found.cuda else "install NVIDIA's toolkit, 12.8 or newer: nvcc in /usr/local/cuda or on PATH"
    return Check(part="CUDA toolkit", works=None, found="no g++ for it" if found.cuda else "none", fix=fix,
                 still="PyTorch and Triton entries; a `.cu` or `load_inline` cannot be compiled")


def _sandbox(settings: Settings) -> Iterator[Check]:
    from kernelderby.judge.judging import sandbox_of

    found = sandbox_of(settings.sandbox).capabilities()
    missing = " ".join(found.missing) or None
    if not found.works:
        yield Check(part="sandbox", works=False, found=f"{found.name} does not work here", fix=missing,
                    still="`derby judge FILE --problem P --sandbox none`, for your own files; it never ranks")
        return
    walls = "a box could reach the network" if found.network else "no network"
    yield Check(part="sandbox", works=found.name != "none", found=f"{found.name}, {walls}{', a uid of its own' if found.own_uid else ''}")
    yield _limit("memory limit", found.memory_limit, "an entry that takes too much memory may slow the whole machine", missing)
    yield _limit("process limit", found.process_limit, "an entry that starts processes without end may slow the whole machine", missing)
    yield _limit("freezer", found.freeze, "times are less certain: an entry could work between its calls", missing)


def _limit(part: str, kind: str, without: str, missing: str | None) -> Check:
    if kind == "none":
        return Check(part=part, works=None, found=f"none: {without}", fix=missing, still="everything; verdicts say what was missing")
    return Check(part=part, works=True, found=kind)


def _lines(check: Check) -> Iterator[str]:
    mark = {True: "works", False: "MISSING", None: "–"}[check.works]
    yield f"{mark:8} {check.part:16} {check.found}"
    if check.works is not True and check.fix:
        yield f"{'':25} do: {check.fix}"
    if check.works is not True and check.still:
        yield f"{'':25} still works: {check.still}"
