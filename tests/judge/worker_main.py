"""A worker process like `derby worker`: `python -m tests.judge.worker_main cpu [fake] [unable] [hasty]`.

fake: with the fake judge. unable: with one that finds no sandbox. hasty: with a lease of 3 s instead of 20, so that a killed worker's runs
are soon claimed again, and less patience elsewhere.
"""

import logging
import sys
from typing import cast

from kernelderby.core.settings import Settings
from kernelderby.judge import lease, runs, worker
from kernelderby.judge.judging import Judge
from tests.judge.fake_judge import FakeJudge

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    if "hasty" in sys.argv:
        lease.LEASE_S = 3.0
        runs.LEASE_S = 3.0   # type: ignore[attr-defined]
        lease.RENEW_S, lease.LOOK_S, runs.IDLE_S, runs.PAUSE_S = 0.5, 0.2, 1.0, 0.2
        worker.GRACE_S, worker.LET_GO_S = 2.0, 1.0
    fake = (lambda: cast(Judge, FakeJudge(is_unable="unable" in sys.argv))) if "fake" in sys.argv else None
    worker.run_worker(Settings.from_env(), sys.argv[1], fake)
