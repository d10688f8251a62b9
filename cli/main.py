"""The command `derby`. One command a file; contestant commands talk HTTP alone and need neither torch nor a database."""

import logging
import sys
from collections.abc import Callable

import typer

from kernelderby.cli import (
    admin,
    backup,
    board,
    calibrate,
    cancel,
    contest,
    doctor,
    duel,
    env,
    init,
    judge,
    login,
    logs,
    people,
    problem,
    problems,
    receipt,
    rejudge,
    runner,
    show,
    submit,
    team,
    test,
    token,
    up,
    watch,
    worker,
)
from kernelderby.core.errors import OUR_FAULT, DerbyError

_CONTESTANT: tuple[Callable[..., None], ...] = (
    submit.submit, watch.watch, show.show, cancel.cancel, duel.duel, board.board, problems.problems, init.init, env.env, login.login)
_ORGANIZER: tuple[Callable[..., None], ...] = (up.up, judge.judge, doctor.doctor, worker.worker, calibrate.calibrate, rejudge.rejudge)


def main() -> None:
    """Run the command line. Exit status: 0 accepted or done, 1 not accepted, 2 usage, 3 our fault."""
    logs.set_up(logging.WARNING)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")   # type: ignore[union-attr]   # a terminal without UTF-8 must not end a command
    try:
        build()()
    except DerbyError as error:
        print(error.message, file=sys.stderr)
        sys.exit(error.exit_status)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("kernelderby"):
            raise
        print(f"This command needs the whole platform ({error.name} is not installed). Run it as ./derby in a checkout.", file=sys.stderr)
        sys.exit(OUR_FAULT)


def build() -> typer.Typer:
    """All commands."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
                      help="Kernel Derby: write a kernel, have it judged, see where it stands.")
    for command in _CONTESTANT:
        app.command(rich_help_panel="Send kernels")(command)
    for command in _ORGANIZER:
        app.command(rich_help_panel="Run the platform")(command)
    app.command(context_settings=test.PASS_ON, rich_help_panel="Run the platform")(test.test)
    app.add_typer(contest.build(), name="contest", rich_help_panel="Send kernels")
    app.add_typer(backup.build(), name="backup", rich_help_panel="Run the platform")
    app.add_typer(problem.build(), name="problem", rich_help_panel="Run the platform")
    app.add_typer(receipt.build(), name="receipt", rich_help_panel="Send kernels")
    app.add_typer(runner.build(), name="runner", rich_help_panel="Run the platform")
    app.add_typer(token.build(), name="token", rich_help_panel="Send kernels")
    app.add_typer(team.build(), name="team", rich_help_panel="Send kernels")
    app.add_typer(people.build(), name="people", rich_help_panel="Run the platform")
    app.add_typer(admin.build(), name="admin", rich_help_panel="Run the platform")
    return app


if __name__ == "__main__":
    main()
