"""What the harness does on a CPU: the arena is a mapped file, a call has ended when it returns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kernelderby.judge.box.arena import Arena
from kernelderby.judge.box.calls import Pages, Served, serve_calls


class Device(Protocol):
    """What differs between kinds of devices."""

    def open_arena(self, message: Mapping[str, Any], fds: Sequence[int], pages: Pages) -> Arena:
        """The arena of the wire's `arena`."""

    def finish(self) -> None:
        """Wait for what was launched; raises what it failed with."""

    def captured(self, call: Callable[[], None]) -> Callable[[], None]:
        """A call that has run before, as the replay of one capture of it. Raises Fault."""

    def serve(self, call: Callable[[], None], numbers: range, pages: Pages, is_over: Callable[[], bool], *, armed: bool) -> Served:
        """Serve the calls of these numbers, each when the go page says so."""


class Host:
    """The processor itself. Nothing can be armed there."""

    def open_arena(self, message: Mapping[str, Any], fds: Sequence[int], pages: Pages) -> Arena:
        return Arena(fds[0], message["bytes"])

    def finish(self) -> None:
        return

    def captured(self, call: Callable[[], None]) -> Callable[[], None]:
        """The call itself: a processor captures nothing."""
        return call

    def serve(self, call: Callable[[], None], numbers: range, pages: Pages, is_over: Callable[[], bool], *, armed: bool) -> Served:
        return serve_calls(call, numbers, pages, is_over)
