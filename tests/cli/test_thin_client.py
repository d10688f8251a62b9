"""Contestant commands run on a machine that has typer, httpx and pydantic alone."""

import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

ALLOWED = (   # the base install: typer, httpx, pydantic and what they bring
    "typer", "click", "rich", "shellingham", "markdown_it", "mdurl", "pygments", "httpx", "httpcore", "h11", "anyio", "sniffio", "idna",
    "certifi", "pydantic", "pydantic_core", "annotated_types", "annotated_doc", "typing_extensions", "typing_inspection", "kernelderby",
)
BLOCKED = """
import sys, sysconfig
class OnlyTheBaseInstall:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and not top.startswith(("_", "__editable__")) and top not in {allowed!r}:
            raise ModuleNotFoundError(f"{{name}} is not in the base install", name=name)
sys.meta_path.insert(0, OnlyTheBaseInstall())
from kernelderby.cli.main import main
sys.argv = ["derby", *sys.argv[1:]]
main()
"""


def thin(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", "-c", BLOCKED.format(allowed=ALLOWED), *arguments], capture_output=True, text=True,
                          timeout=60, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **variables})


@pytest.mark.parametrize("command", ["", "submit", "watch", "show", "cancel", "board", "problems", "init", "env", "login"])
def test_help_needs_nothing_of_the_server(command: str) -> None:
    done = thin(*command.split(), "--help")

    assert done.returncode == 0, done.stderr
    assert "Usage: derby" in done.stdout


def test_submit_needs_nothing_of_the_server(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def custom_kernel(data): ...\n")
    server = HTTPServer(("127.0.0.1", 0), TakesAnything)
    Thread(target=server.serve_forever, daemon=True).start()

    done = thin("submit", str(kernel), "--problem", "p", "--no-wait", "--json", DERBY_URL=f"http://127.0.0.1:{server.server_port}")
    server.shutdown()

    assert done.returncode == 0, done.stderr
    assert '"submission": 12' in done.stdout


@pytest.mark.parametrize("command", ["judge k.py --problem p", "token list --person ada", "problem add p", "up", "worker"])
def test_organizer_commands_say_what_is_missing(command: str, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("x = 1\n")

    done = thin(*command.replace("k.py", str(tmp_path / "k.py")).split(), DERBY_DATA=str(tmp_path / "data"))

    assert done.returncode == 3
    assert "needs the whole platform" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_tells_what_works_all_the_same() -> None:
    done = thin("doctor")

    assert "Traceback" not in done.stderr
    assert "submit, watch" in done.stdout


class TakesAnything(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = b'{"submission": 12, "url": "u", "problem": "p", "device": "cpu", "mode": "test", "inferred": []}'
        self.send_response(201)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        return
