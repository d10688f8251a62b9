"""The supervisor of `derby up`."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from kernelderby.cli.supervisor import Supervisor
from kernelderby.core.errors import SetupError

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


def tend_until(supervisor: Supervisor, reached: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not reached():
        supervisor.tend()
        time.sleep(0.02)


def test_a_child_that_ends_is_started_again_with_growing_pauses(tmp_path: Path) -> None:
    said: list[str] = []
    with Supervisor(tmp_path, said.append) as supervisor:
        supervisor.start("clock", [sys.executable, "-c", "print('tick')"], os.environ)
        tend_until(supervisor, lambda: len(said) >= 3)

    assert "0.5 s" in said[0]
    assert "1 s" in said[1]
    assert (tmp_path / "clock.log").read_text().count("tick") >= 3


def test_a_child_that_never_comes_up_is_given_up_with_its_last_words(tmp_path: Path) -> None:
    with Supervisor(tmp_path, lambda _: None, give_up_after=2) as supervisor, pytest.raises(SetupError, match="no such thing"):
        supervisor.start("broken", [sys.executable, "-c", "raise SystemExit('no such thing')"], os.environ)
        tend_until(supervisor, lambda: False)


def test_a_child_that_ignores_the_request_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelderby.cli.supervisor._FAREWELL_S", 0.5)
    with Supervisor(tmp_path, lambda _: None) as supervisor:
        supervisor.start("stubborn", [sys.executable, "-c", STUBBORN], os.environ)
        tend_until(supervisor, lambda: "up" in (tmp_path / "stubborn.log").read_text())
        pid = psutil.Process().children()[-1].pid

    assert not psutil.pid_exists(pid)
