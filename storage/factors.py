"""What a runner's times are multiplied by on a board, so that unequal hosts of one class rank fairly.

Every run that competes also times the honest baseline. The runner whose first baseline on a board is the oldest is the board's reference;
another runner's factor is the reference's rolling median over its own. A run's own baseline is kept after its factor is known: an entry
has no say in the factor of its own score.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import groupby
from statistics import median

from sqlalchemy import Row, delete, func, select
from sqlalchemy.orm import Session

from kernelderby.core.devices import device as device_class
from kernelderby.core.scoring import geomean
from kernelderby.core.verdict import Verdict
from kernelderby.storage.models import Baseline

log = logging.getLogger(__name__)

ROLLING = 20                      # baselines of a runner that its median is over
FEW = 3                           # of either runner; with fewer the factor is 1
LATELY = timedelta(days=14)       # older baselines count for nothing: their driver, or their host, may be gone
BAND = (0.8, 1.25)                # outside, the two are not one class of hardware

_Baseline = Row[str, float, datetime]


def rated(session: Session, verdict: Verdict, now: datetime) -> Verdict:
    """The verdict with its runner's factor as `environment.factor`, where it has a score of a GPU. Its times stay as measured."""
    runner = verdict.environment.get("gpu_uuid")
    if verdict.score_us is None or runner is None:
        return verdict
    found = factor(session, verdict.version, verdict.device, runner, now)
    return verdict.model_copy(update={"environment": {**verdict.environment, "factor": found}})


def factor(session: Session, version: str, device: str, runner: str, now: datetime) -> float:
    """Of a runner, by its GPU's UUID, on the boards of a version's hash and a class; 1.0 while too little is known of it, and on a CPU."""
    known = _known(session, version, device)
    recent = {name: found for name, rows in known.items() if (found := _recent(rows, now))}
    if runner not in recent:
        return 1.0
    reference = min(recent, key=lambda name: (known[name][0].at, name))
    if reference == runner or min(len(recent[reference]), len(recent[runner])) < FEW:
        return 1.0
    ratio = median(recent[reference]) / median(recent[runner])
    if not BAND[0] <= ratio <= BAND[1]:
        log.warning("this runner is not of its class: its factor is 1",
                    extra={"runner": runner, "reference": reference, "version": version, "device": device, "ratio": round(ratio, 4)})
        return 1.0
    return round(ratio, 6)      # far below any effect that a board tells apart


def keep(session: Session, verdict: Verdict, now: datetime) -> None:
    """Remember what the baseline took in a run that competes. A runner's first one and its ROLLING newest ones stay."""
    runner, us = verdict.environment.get("gpu_uuid"), _baseline_us(verdict)
    if runner is None or us is None or device_class(verdict.device).arch is None:      # a CPU's times say too little of its host
        return
    its_own = (Baseline.version == verdict.version, Baseline.device == verdict.device, Baseline.runner == runner)
    number = 1 + (session.scalar(select(func.max(Baseline.number)).where(*its_own)) or 0)
    session.add(Baseline(version=verdict.version, device=verdict.device, runner=runner, number=number, us=us, at=now))
    session.execute(delete(Baseline).where(*its_own, Baseline.number > 1, Baseline.number <= number - ROLLING)
                    .execution_options(synchronize_session=False))


def _known(session: Session, version: str, device: str) -> Mapping[str, list[_Baseline]]:
    """The baselines of each runner, in their order: ROLLING + 1 of each at most."""
    rows = session.execute(
        select(Baseline.runner, Baseline.us, Baseline.at).where(Baseline.version == version, Baseline.device == device)
        .order_by(Baseline.runner, Baseline.number)
    )
    return {runner: list(found) for runner, found in groupby(rows, key=lambda row: row.runner)}


def _recent(rows: list[_Baseline], now: datetime) -> list[float]:
    return [row.us for row in rows[-ROLLING:] if row.at > now - LATELY]


def _baseline_us(verdict: Verdict) -> float | None:
    """The geometric mean over the timed cases of the baseline's medians; None where one is missing. Every run of a board times the same."""
    times = [case.baseline_us for case in verdict.cases if case.time_us is not None]
    found = [us for us in times if us is not None]
    return geomean(found) if found and len(found) == len(times) else None
