"""The harness's wait for an unarmed call: it says that it is awake when it is asked, never ahead, and then starts at the word."""

import os
import threading
from collections.abc import Iterator

import pytest

from kernelderby.judge.box.calls import Pages
from kernelderby.judge.box.cuda.device import _may_start_at_once
from kernelderby.judge.box.pages import AWAKE, BYTES, CALL, NEAR, STOP, Page
from tests.judge.processes import wait_for


class Waiting:
    """A box in a thread that waits for call 3, and both ends of its pages."""

    def __init__(self) -> None:
        fds = [os.memfd_create("page") for _ in range(2)]
        for fd in fds:
            os.ftruncate(fd, BYTES)
        self.go, self.done = (Page(fd, writable=True) for fd in fds)
        pages = Pages(go=Page(fds[0], writable=False), done=Page(fds[1], writable=True))
        self.may: bool | None = None
        self.is_over = False
        self.thread = threading.Thread(target=lambda: setattr(self, "may", _may_start_at_once(3, pages, lambda: self.is_over)))
        self.thread.start()

    def ended(self) -> bool | None:
        self.thread.join(10)
        return self.may


@pytest.fixture
def box() -> Iterator[Waiting]:
    waiting = Waiting()
    yield waiting
    waiting.is_over = True
    waiting.thread.join(10)


@pytest.mark.parametrize("near", [0, 2], ids=["not asked", "asked for the call before"])
def test_it_does_not_say_that_it_is_awake_before_it_is_asked(box: Waiting, near: int) -> None:
    box.go.write(NEAR, near)
    box.thread.join(0.1)

    assert box.thread.is_alive() and box.done.read(AWAKE) == 0


def test_asked_it_says_so_and_starts_at_the_word(box: Waiting) -> None:
    box.go.write(NEAR, 3)
    wait_for(lambda: box.done.read(AWAKE) == 3)
    assert box.thread.is_alive()

    box.go.write(CALL, 3)

    assert box.ended() is True


def test_it_stops_at_the_stop_word(box: Waiting) -> None:
    box.go.write(STOP, 1)

    assert box.ended() is False


def test_it_stops_when_the_referee_spoke_though_it_was_asked(box: Waiting) -> None:
    box.go.write(NEAR, 3)
    box.is_over = True

    assert box.ended() is False
