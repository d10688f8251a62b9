"""A process that does what it is told, a line at a time, in a control group of its own where one can be made."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kernelderby.judge.sandbox.base import BoxLimits
from kernelderby.judge.sandbox.cgroup import Group, find_hierarchy


@contextmanager
def group_of(memory_bytes: int, number: int) -> Iterator[Group]:
    """An empty control group with that limit, taken away afterwards with all that is in it. Raises RuntimeError where none can be made."""
    hierarchy = find_hierarchy()
    if hierarchy is None:
        raise RuntimeError("no control group can be made here")
    group = hierarchy.new(number)
    try:
        group.limit(BoxLimits(memory_bytes=memory_bytes, processes=512))
        yield group
    finally:
        group.remove()


class Child:
    """One such process. `ask` raises RuntimeError when it is gone."""

    def __init__(self, module: str, role: str, group: Group | None = None) -> None:
        joins = [str(path) for path in group.join_files()] if group else []
        command = [sys.executable, "-m", module, role, *joins]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hear()      # that it is up

    def ask(self, *words: object) -> Any:
        """Its answer to one line."""
        assert self.process.stdin
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError(f"the child ended with status {self.process.wait()}") from None
        return self.hear()

    def hear(self) -> Any:
        """Its next line."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the child ended with status {self.process.wait()}")
        return json.loads(line)

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait(30)


def join(paths: Sequence[str]) -> None:
    """Enter control groups, from inside a child."""
    for path in paths:
        with open(path, "w") as file:
            file.write("0")


def obey(commands: Mapping[str, Callable[..., Any]]) -> None:
    """Answer lines until there are no more, from inside a child."""
    print(json.dumps("up"), flush=True)
    for line in sys.stdin:
        name, *words = line.split()
        print(json.dumps(commands[name](*words)), flush=True)
