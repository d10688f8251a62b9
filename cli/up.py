"""`derby up`: the whole platform on one machine."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from kernelderby.cli.keys import is_loopback, server_of
from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json, say
from kernelderby.core.devices import CPU, DeviceClass
from kernelderby.core.errors import DerbyError, SandboxUnavailable
from kernelderby.core.settings import Settings

if TYPE_CHECKING:
    from kernelderby.cli.supervisor import Supervisor
    from kernelderby.judge.gpus import Found
    from kernelderby.storage.database import Database

_PATIENCE_S = 30     # for another `derby up` to say where it runs
_PORT = 8000         # behind a proxy that has another name
_QUICKLY = 3         # with --once: a program that fails so often in a row will not come up


def up(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The web's port. Default: DERBY_PUBLIC_URL's, 8000.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Judge the example entries, print the board, and leave nothing running.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set up and run everything on this machine: web, queue, database, a worker for cpu and one for each GPU. Ctrl-C ends it all."""
    settings = Settings.from_env()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        status = _once(settings, as_json) if once else _run(settings, port, as_json)
    except KeyboardInterrupt:
        say("Stopped. Nothing is left running; the data stay.")
        status = 0 if not once else 130
    raise typer.Exit(status)


def _run(settings: Settings, port: int | None, as_json: bool) -> int:
    from kernelderby.cli.data_folder import AlreadyRunning, login_link

    wanted = port or (is_loopback(settings.public_url) and urlsplit(settings.public_url).port) or _PORT
    try:
        with _platform(settings, wanted, give_up_after=None) as (running, supervisor, database):
            _greet(running, login_link(running, database), as_json)
            while True:
                supervisor.tend()
                time.sleep(0.2)
    except AlreadyRunning:
        return _point_at_the_first(settings, as_json)


def _once(settings: Settings, as_json: bool) -> int:
    from kernelderby.cli.data_folder import AlreadyRunning
    from kernelderby.cli.examples import example_lines, worst_status
    from kernelderby.judge.gpus import gpus

    try:
        with _platform(settings, 0, give_up_after=_QUICKLY) as (running, supervisor, _):
            board = _judge_examples(running, gpus(), supervisor.tend)
    except AlreadyRunning:
        say("The platform runs already on this data folder; the examples go to it.")
        _address_of_the_first(settings)
        board = _judge_examples(settings, gpus(), lambda: None)
    if as_json:
        print_json({"board": board})
    else:
        print("\n".join(example_lines(board)))
    return worst_status(board)


@contextmanager
def _platform(settings: Settings, port: int, give_up_after: int | None) -> "Iterator[tuple[Settings, Supervisor, Database]]":
    """Everything running and ready; all of it ended on the way out."""
    from kernelderby.cli import data_folder, services
    from kernelderby.cli.supervisor import Supervisor
    from kernelderby.judge.gpus import gpus
    from kernelderby.storage.database import connect, migrate

    settings = replace(settings, data=settings.data.absolute())
    with data_folder.owned(settings.data), services.broker_socket() as listen, ExitStack() as stack:
        port = services.choose_port(port)
        settings, local = _at_port(settings, port), f"http://127.0.0.1:{port}"
        _insist_on_a_sandbox(settings)
        database = stack.enter_context(closing(connect(settings.database)))
        migrate(database)
        data_folder.local_token(settings, database)
        found = gpus()
        names = data_folder.add_problems(settings, database, _classes(found))
        say(f"Problems: {', '.join(names) or 'none'}. Starting the broker, the web and {_workers(found)} …")
        with Supervisor(settings.data / "logs", say, give_up_after) as supervisor, _address_file(settings, local):
            settings = services.start_broker(supervisor, settings, listen)
            services.start_web(supervisor, settings, port)
            services.start_worker(supervisor, settings, CPU.name)
            for device, number in [(gpu.device, gpu.number) for gpu in found if gpu.device]:
                services.start_worker(supervisor, settings, device.name, number)
            services.wait_until_ready(local, supervisor.tend)
            yield settings, supervisor, database


def _classes(found: "Sequence[Found]") -> list[DeviceClass]:
    """What this machine judges for."""
    return list(dict.fromkeys([CPU, *(gpu.device for gpu in found if gpu.device)]))


def _workers(found: "Sequence[Found]") -> str:
    """Who is started, in words; a GPU that is of no use is told at once."""
    for gpu in (g for g in found if g.message):
        say(str(gpu.message))
    return ", ".join(["a worker for cpu", *(f"one for {g.device.name} on GPU {g.number} ({g.name})" for g in found if g.device)])


def _at_port(settings: Settings, port: int) -> Settings:
    """With the address that people use: loopback gets the port; the name of a proxy of one's own stays as it was set."""
    return replace(settings, public_url=f"http://127.0.0.1:{port}") if is_loopback(settings.public_url) else settings


@contextmanager
def _address_file(settings: Settings, local: str) -> Iterator[None]:
    """While it runs, a file in the data folder says where."""
    settings.url_file.write_text(f"{local}\n")
    try:
        yield
    finally:
        settings.url_file.unlink(missing_ok=True)


def _insist_on_a_sandbox(settings: Settings) -> None:
    from kernelderby.judge.judging import sandbox_of

    found = sandbox_of(settings.sandbox).capabilities()
    if not found.works:
        still = "Without one `derby judge FILE --problem P --sandbox none` works, for your own files."
        raise SandboxUnavailable(" ".join(["No sandbox works on this machine.", *found.missing, still]))


def _greet(settings: Settings, link: str, as_json: bool) -> None:
    if as_json:
        print_json({"url": settings.public_url, "login": link, "data": str(settings.data)})
        sys.stdout.flush()
        return
    print(f"""
Kernel Derby runs at {settings.public_url}
  Log in (this link works once, within a day): {link}
  A first kernel:  ./derby init vector_add  and then  ./derby submit vector_add/starter.py --problem vector_add
  Data: {settings.data}   Logs: {settings.data / "logs"}   Stop: Ctrl-C""", flush=True)


def _point_at_the_first(settings: Settings, as_json: bool) -> int:
    from kernelderby.cli.data_folder import login_link
    from kernelderby.storage.database import connect

    url = _address_of_the_first(settings)
    database = connect(settings.database)
    link = login_link(replace(settings, public_url=url), database)
    database.close()
    if as_json:
        print_json({"url": url, "login": link, "data": str(settings.data.absolute())})
    else:
        print(f"Kernel Derby runs already at {url}\n  Log in (this link works once, within a day): {link}")
    return 0


def _address_of_the_first(settings: Settings) -> str:
    """Where the other one runs; it may be about to start."""
    deadline = time.monotonic() + _PATIENCE_S
    while not settings.url_file.is_file() and time.monotonic() < deadline:
        time.sleep(0.1)
    return server_of(settings)


def _judge_examples(settings: Settings, found: "Sequence[Found]", tend: Callable[[], None]) -> list[dict[str, Any]]:
    """The verdicts of the examples. A thread asks for them, so that this one can tend the programs meanwhile."""
    from kernelderby.cli.examples import judge_examples
    from kernelderby.cli.server import Server

    board: list[dict[str, Any]] = []
    failed: list[Exception] = []

    def ask() -> None:
        try:
            board.extend(judge_examples(Server(replace(settings, token="", url="")), settings.problems, _classes(found), say))
        except (DerbyError, OSError, ValueError, KeyError) as error:
            failed.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    while asking.is_alive():
        tend()
        with suppress(RuntimeError):
            asking.join(0.1)
    if failed:
        raise failed[0]
    return board
