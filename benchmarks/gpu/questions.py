"""What the judge rests on and no document says: three questions, each answered by a program of its own with processes of its own."""

import json
import subprocess
import sys
from typing import Any

from benchmarks.gpu.bench import Bench

ANSWERS_WITHIN_S = 75.0
QUESTIONS = {
    "does a reset of persisting L2 lines act across contexts?": "benchmarks.gpu.l2_persistence",
    "does pinned host memory escape the memory cgroup?": "benchmarks.gpu.pinned_memory",
    "what does a frozen box's queue do to its neighbours?": "benchmarks.gpu.frozen_queue",
}


def measure(bench: Bench) -> Any:
    """A row a question: an answer in one line, and its figures."""
    rows = []
    for question, program in QUESTIONS.items():
        rows.append({"question": question, "answer": None, **_asked(program)})
        print(f"{question} {rows[-1]['answer'] or rows[-1].get('failed')}", flush=True)
        bench.keep("questions", rows)
    return rows


def _asked(program: str) -> dict[str, Any]:
    try:
        done = subprocess.run([sys.executable, "-m", program], capture_output=True, text=True, timeout=ANSWERS_WITHIN_S, check=False)
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer
    except subprocess.TimeoutExpired as error:
        said = {"stderr": str(error.stderr)[-1500:], "stdout": str(error.stdout)[-1500:]}
        return {"failed": f"no answer within {ANSWERS_WITHIN_S:g} s", **said}
    except (ValueError, IndexError):
        print(done.stderr[-1500:], flush=True)
        return {"failed": f"status {done.returncode}: {done.stderr[-300:]}", "stdout": done.stdout[-1500:]}
