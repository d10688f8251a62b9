"""`derby runner`: whether this machine's verdicts count beyond practice. An organizer's command, on the machine that has the GPU."""

from typing import TYPE_CHECKING

import typer

from kernelderby.cli.calibrate import refuse_cpu
from kernelderby.cli.doctor import Check
from kernelderby.cli.options import AsJson, Device
from kernelderby.cli.output import NOT_ACCEPTED, print_json, say
from kernelderby.core.runner import RunnerFacts
from kernelderby.core.settings import Settings

if TYPE_CHECKING:
    from kernelderby.judge.acceptance.checks import CheckResult

_MARKS = {True: "ok", False: "FAILED", None: "–"}


def build() -> typer.Typer:
    """The commands below `derby runner`."""
    app = typer.Typer(no_args_is_help=True, help="Certify a machine that judges.")
    app.callback()(lambda: None)      # so that a single command keeps its name
    app.command()(accept)
    return app


def accept(device: Device = None, as_json: AsJson = False) -> None:
    """Try this machine's sandbox, GPU and clock: a signed certificate, or the names of what failed. Takes about two minutes."""
    refuse_cpu(device)
    from kernelderby.judge.acceptance.accepting import Runner
    from kernelderby.judge.acceptance.accepting import accept as try_all
    from kernelderby.judge.acceptance.certificate import certificate_file
    from kernelderby.judge.acceptance.here import class_of, this_gpu
    from kernelderby.judge.acceptance.trials import Trials
    from kernelderby.judge.judging import open_judge, sandbox_of

    settings = Settings.from_env()
    gpu = this_gpu(settings)
    chosen = class_of(gpu, device)
    can = sandbox_of(settings.sandbox, settings.gpu).capabilities()
    with open_judge(settings, settings.sandbox) as judge:
        runner = Runner(device=chosen, gpu=gpu, sandbox=can, trials=Trials(judge, chosen, say))
        report = try_all(settings, runner, lambda result: say(_line(result)))
    if as_json:
        print_json(report)
    elif report["failed"]:
        print(f"No certificate: {', '.join(report['failed'])} failed. Verdicts stay marked uncertified, and count for practice alone.")
    else:
        print(f"Certificate {report['id']} for {report['gpu']}, in {certificate_file(settings, report['uuid'])}. It holds until the "
              "driver, torch, the GPU or our version changes. A worker that runs now must be started again to use it.")
    raise typer.Exit(NOT_ACCEPTED if report["failed"] else 0)


def state(settings: Settings) -> list[Check]:
    """For `derby doctor`: the certificate of this machine's GPU; nothing where there is none."""
    from kernelderby.judge.acceptance.here import this_runner

    facts = this_runner(settings)
    return [] if facts is None else checks_of(facts)


def checks_of(facts: RunnerFacts) -> list[Check]:
    """Certificate and ceilings of a GPU that is here."""
    checks = [Check(part="certificate", works=True if facts.certificate else None,
                    found=facts.certificate or (f"void: {facts.failed_check}" if facts.failed_check else "none"),
                    fix="derby runner accept, while nothing else uses the GPU",
                    still="judging; its verdicts are marked uncertified, and count for practice alone")]
    if facts.measured is None:
        checks.append(Check(part="ceilings", works=None, found="not measured", fix="derby calibrate, while nothing else uses the GPU",
                            still="everything; verdicts show the share of the data sheet alone"))
    return checks


def _line(result: "CheckResult") -> str:
    return f"  {_MARKS[result.ok]:6} {result.name:10} {result.message}"
