"""How the harness is started, in every sandbox alike."""

import os
import sys
from collections.abc import Sequence

PROGRAM = (sys.executable, "-s", "-P", "-m", "kernelderby.judge.box")      # the descriptor of its wire follows
WORKSHOP = (sys.executable, "-s", "-P", "-m", "kernelderby.judge.box.compiling")      # likewise


def environment(device: str, *, home: str, python_path: Sequence[str]) -> dict[str, str]:
    """All that the harness finds in its environment."""
    variables = {
        "HOME": home, "TMPDIR": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TRITON_CACHE_DIR": f"{home}/triton",
        "PYTHONPATH": os.pathsep.join(python_path), "OMP_NUM_THREADS": "1",
    }
    if device == "cpu":
        variables["TRITON_INTERPRET"] = "1"
    return variables
