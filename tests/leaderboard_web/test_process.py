"""The web as a process of its own, started as `derby up` starts it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from kernelderby.core.settings import Settings
from kernelderby.storage.database import connect, migrate
from tests.leaderboard_web.site import Site
from tests.small_world import World

MOST_BYTES = 110 * 1024 * 1024


@contextmanager
def _started(data: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "DERBY_DATA": str(data), "DERBY_PUBLIC_URL": f"http://127.0.0.1:{port}"}
    process = subprocess.Popen([sys.executable, "-m", "uvicorn", "--factory", "kernelderby.leaderboard_web.app:create_app_from_env",
                                "--port", str(port), "--log-level", "warning", "--timeout-graceful-shutdown", "2"], env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(process, url)
        yield process, url
    finally:
        process.kill()
        process.wait()


def _wait_for(process: subprocess.Popen[bytes], url: str) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server ended"
        try:
            if httpx.get(f"{url}/healthz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    pytest.fail("the server did not answer")


def test_the_process_stays_small_and_ends_when_told(tmp_path: Path) -> None:
    database = connect(Settings(data=tmp_path).database)
    migrate(database)
    world = World.make(database, tmp_path)
    with _started(tmp_path) as (process, url):
        site = Site(url=url, world=world)
        number = site.send("sender", device="cpu")
        with site.browser("sender") as browser:
            for _ in range(30):
                for path in ("/", "/problems/doubling", f"/submissions/{number}", "/submit", "/entries", "/api", "/api/openapi.json"):
                    assert browser.get(path).status_code == 200
        assert psutil.Process(process.pid).memory_info().rss < MOST_BYTES
        events, sse = f"/api/v1/submissions/{number}/events", {"Accept": "text/event-stream"}
        with site.client() as client, client.stream("GET", events, headers=sse) as stream:
            assert next(stream.iter_lines()) == "retry: 1000"
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) in (0, -signal.SIGTERM)
    database.close()
