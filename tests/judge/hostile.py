"""Programs that cheat, break things or break themselves, and what the judge must say of each. All are for the problem `double`."""

from dataclasses import dataclass
from textwrap import dedent

from kernelderby.core.verdict import Gate, Mode, Outcome

HONEST = """
import torch

def custom_kernel(data):
    torch.mul(data.x, data.factor * data.w, out=data.y)
    torch.sum(data.y, 1, out=data.total)
"""
# Where the harness stands that serves a call: its pages, the number of the call, and so its word that the call is done.
SERVING = """
import sys, time, torch

def serving():
    frame = sys._getframe()
    while frame and frame.f_code.co_name != "serve_calls":
        frame = frame.f_back
    return frame and frame.f_locals

def honest(data):
    torch.mul(data.x, data.factor * data.w, out=data.y)
    torch.sum(data.y, 1, out=data.total)

def sockets():
    import os, stat
    return [fd for fd in range(3, 1024) if os.path.exists(f"/proc/self/fd/{fd}") and stat.S_ISSOCK(os.fstat(fd).st_mode)]

def slowly(data):
    answer = data.factor * data.x * data.w
    data.total.copy_(answer.sum(1))
    for row in range(len(answer)):
        time.sleep(0.02)
        data.y[row] = answer[row]
"""


@dataclass(frozen=True)
class Hostile:
    """A source, and the outcomes that are right for it: more than one where the machine decides which comes first."""

    source: str
    outcomes: tuple[Outcome, ...]
    gate: Gate | None = None
    mode: Mode = Mode.TEST


def _case(body: str, *outcomes: Outcome, gate: Gate | None = None, before: str = "", mode: Mode = Mode.TEST) -> Hostile:
    return Hostile(before + dedent(body), outcomes, gate, mode)


WRONG, NONFINITE, REFUSED, ACCEPTED = Outcome.WRONG_VALUES, Outcome.NONFINITE, Outcome.REFUSED, Outcome.ACCEPTED
RUNTIME, TIMEOUT, ILLEGAL = Outcome.RUNTIME_ERROR, Outcome.TIMEOUT, Outcome.ILLEGAL_MEMORY
RIGHT, HONEST_TIME = Gate.RIGHT, Gate.HONEST_TIME

HOSTILE: dict[str, Hostile] = {
    "does nothing": _case("def custom_kernel(data): pass", WRONG, gate=RIGHT),
    "returns nothing but zeros": _case("def custom_kernel(data): data.y.zero_(); data.total.zero_()", WRONG, gate=RIGHT),
    "gives the first answer again": _case("""
        kept = {}
        def custom_kernel(data):
            if data.y.shape not in kept:
                honest(data)
                kept[data.y.shape] = data.y.clone(), data.total.clone()
            data.y.copy_(kept[data.y.shape][0]); data.total.copy_(kept[data.y.shape][1])
        """, WRONG, gate=RIGHT, before=SERVING),
    "caches by the inputs' address": _case("""
        kept = {}
        def custom_kernel(data):
            key = data.x.data_ptr(), data.x.shape
            if key not in kept:
                kept[key] = data.factor * data.x * data.w
            data.y.copy_(kept[key]); data.total.copy_(kept[key].sum(1))
        """, WRONG, gate=RIGHT),
    "caches by the inputs' contents, which never come again": _case("""
        kept = {}
        def custom_kernel(data):
            key = float(data.x.sum()), float(data.w.sum())
            if key not in kept:
                kept[key] = data.factor * data.x * data.w
            data.y.copy_(kept[key]); data.total.copy_(kept[key].sum(1))
        """, ACCEPTED),
    "keeps what it made of an input that could stay for a block": _case("""
        kept = {}
        def custom_kernel(data):
            at = serving()
            block = at and at["numbers"].start
            if block not in kept:
                kept[block] = data.factor * data.w
            torch.mul(data.x, kept[block], out=data.y); torch.sum(data.y, 1, out=data.total)
        """, WRONG, before=SERVING, mode=Mode.BENCHMARK),
    "claims more than any number can hold": _case("""
        def custom_kernel(data):
            honest(data)
            if (at := serving()):
                at["served"].claimed_us.append(10 ** 4000)
        """, ACCEPTED, before=SERVING, mode=Mode.BENCHMARK),
    "computes in plan": _case("""
        answer = []
        def plan(data): answer[:] = [data.factor * data.x * data.w]
        def custom_kernel(data): data.y.copy_(answer[0]); data.total.copy_(answer[0].sum(1))
        """, WRONG, gate=RIGHT),
    "forgets the factor": _case("""
        def custom_kernel(data): data.y.copy_(data.x * data.w); data.total.copy_(data.y.sum(1))
        """, WRONG, gate=RIGHT),
    "writes half of it": _case("""
        def custom_kernel(data):
            honest(data.__class__(*data[:3], data.y.clone(), data.total))
            data.y[:6] = (data.factor * data.x * data.w)[:6]
        """, WRONG, gate=RIGHT, before=SERVING),
    "leaves the second output out": _case("""
        import torch
        def custom_kernel(data): torch.mul(data.x, data.factor * data.w, out=data.y)
        """, WRONG, gate=RIGHT),
    "NaN everywhere": _case("def custom_kernel(data): data.y.fill_(float('nan')); data.total.fill_(float('nan'))", NONFINITE, gate=RIGHT),
    "adds noise": _case("""
        def custom_kernel(data): honest(data); data.y.mul_(1 + 0.1 * torch.rand(()))
        """, Outcome.NONDETERMINISTIC, gate=RIGHT, before=SERVING),
    "a thread works after the return": _case("""
        import threading
        def custom_kernel(data): threading.Thread(target=slowly, args=(data,)).start()
        """, REFUSED, gate=HONEST_TIME, before=SERVING),
    "a process works after the return": _case("""
        import os
        def custom_kernel(data):
            if serving() and os.fork() == 0:
                slowly(data); os._exit(0)
        """, REFUSED, gate=HONEST_TIME, before=SERVING),
    "plausible values first, the work later": _case("""
        import threading
        def custom_kernel(data):
            data.y.copy_(data.x); data.total.zero_()
            threading.Thread(target=lambda: (time.sleep(0.3), honest(data))).start()
        """, WRONG, Outcome.NONDETERMINISTIC, gate=RIGHT, before=SERVING),
    "says done, then works": _case("""
        def custom_kernel(data):
            if (at := serving()):
                at["pages"].done.write(0, at["number"]); at["pages"].done.wake(0)
            slowly(data)
        """, REFUSED, gate=HONEST_TIME, before=SERVING),
    "says done of a call that was never started": _case("""
        def custom_kernel(data):
            if (at := serving()):
                at["pages"].done.write(0, at["number"] + 7); at["pages"].done.wake(0); time.sleep(0.3)
            honest(data)
        """, REFUSED, gate=HONEST_TIME, before=SERVING),
    "runs the words backwards": _case("""
        def custom_kernel(data):
            honest(data)
            if (at := serving()):
                at["pages"].done.write(0, 2**32 - 1); time.sleep(0.1)
        """, REFUSED, gate=HONEST_TIME, before=SERVING),
    "changes an input": _case("def custom_kernel(data): honest(data); data.x.zero_()", REFUSED, gate=RIGHT, before=SERVING),
    "writes past the end of an output": _case("""
        import ctypes
        def custom_kernel(data): honest(data); ctypes.memset(data.y.data_ptr() + data.y.nbytes, 0, 8)
        """, ILLEGAL, gate=RIGHT, before=SERVING),
    "writes before an input": _case("""
        import ctypes
        def custom_kernel(data): honest(data); ctypes.memset(data.x.data_ptr() - 1, 0, 1); ctypes.memset(data.x.data_ptr() - 2, 1, 1)
        """, ILLEGAL, gate=RIGHT, before=SERVING),
    "exits": _case("""
        import os
        def custom_kernel(data): os._exit(0)
        """, RUNTIME, gate=RIGHT),
    "exits while it is loaded": _case("import os; os._exit(3)", RUNTIME),
    "raises SystemExit": _case("def custom_kernel(data): raise SystemExit(0)", RUNTIME, gate=RIGHT),
    "kills itself": _case("""
        import os
        def custom_kernel(data): os.kill(os.getpid(), 9)
        """, RUNTIME, gate=RIGHT),
    "reads address 0": _case("""
        import ctypes
        def custom_kernel(data): ctypes.string_at(0)
        """, ILLEGAL, gate=RIGHT),
    "never ends": _case("def custom_kernel(data):\n    while True: pass", TIMEOUT, gate=RIGHT),
    "never ends to load": _case("while True: pass", TIMEOUT),
    "stops itself": _case("""
        import os, signal
        def custom_kernel(data):
            os.kill(os.getpid(), signal.SIGSTOP); honest(data)
        """, TIMEOUT, ACCEPTED, before=SERVING),
    "prints without end": _case("def custom_kernel(data):\n    while True: print('x' * 1000)", Outcome.OUTPUT_LIMIT, gate=RIGHT),
    "forks without end": _case("""
        import os
        def custom_kernel(data):
            while True: os.fork()
        """, RUNTIME, REFUSED, TIMEOUT, Outcome.OUT_OF_MEMORY),
    "takes all memory": _case("""
        import torch
        kept = []
        def custom_kernel(data):
            while True: kept.append(torch.ones(8 * 1024 * 1024))
        """, Outcome.OUT_OF_MEMORY, gate=RIGHT),
    "writes garbage on every descriptor": _case("""
        import os
        def custom_kernel(data):
            for fd in range(3, 1024):
                try: os.write(fd, b"\\x00garbage\\n")
                except OSError: pass
            honest(data)
        """, REFUSED, ILLEGAL, before=SERVING),       # the arena is one of them
    "answers before it is asked": _case("""
        import os
        def custom_kernel(data):
            honest(data)
            for fd in sockets(): os.write(fd, b'{"op": "calls", "nonce": 0, "claimed_us": [0.001]}\\n')
        """, REFUSED, before=SERVING),
    "nests without end": _case("""
        import os
        def custom_kernel(data):
            for fd in sockets(): os.write(fd, b"[" * 60000 + b"\\n")
            honest(data)
        """, REFUSED, before=SERVING),
    "a line without end": _case("""
        import os
        def custom_kernel(data):
            for fd in range(3, 1024):
                try:
                    for _ in range(100): os.write(fd, b"a" * 4096)
                except OSError: pass
            honest(data)
        """, REFUSED, ILLEGAL, before=SERVING),
    "shrinks what is shared, in vain": _case("""
        import os
        def custom_kernel(data):
            for fd in range(3, 1024):
                try: os.ftruncate(fd, 0)
                except OSError: pass
            honest(data)
        """, ACCEPTED, before=SERVING),
    "punches holes into what is shared": _case("""
        import ctypes
        libc = ctypes.CDLL(None)
        def custom_kernel(data):
            honest(data)
            for fd in range(3, 1024): libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(1 << 24))
        """, ILLEGAL, REFUSED, TIMEOUT, before=SERVING),
    "prints a verdict and exits": _case("""
        import os
        def custom_kernel(data):
            line = b'{"op": "verdict", "verdict": {"outcome": "accepted", "score_us": 0.001}}\\n'
            os.write(1, line); os._exit(0)
        """, RUNTIME, gate=RIGHT),
    "looks for seeds, and is wrong when it finds one": _case("""
        import gc, glob, os
        def read(path):
            try: return open(path, "rb").read()
            except OSError: return b""
        def found():
            texts = [read(path) for name in ("environ", "cmdline") for path in glob.glob(f"/proc/[0-9]*/{name}")]
            texts += [k.encode() + v.encode() for k, v in os.environ.items()]
            foreign = any(b"referee" in text or b"DERBY" in text or b"seed" in text.lower() for text in texts)
            return foreign or any("seed" in o and isinstance(o.get("seed"), (int, bytes)) for o in gc.get_objects() if type(o) is dict)
        def custom_kernel(data):
            honest(data)
            if found(): data.y.zero_()
        """, ACCEPTED, before=SERVING),
    "claims to be quicker than it is": _case("""
        import time
        time.perf_counter_ns = lambda: 0
        def custom_kernel(data): honest(data)
        """, ACCEPTED, before=SERVING, mode=Mode.BENCHMARK),
}
