"""The score a run stands on a board with: by its runner's factor, and together with other runs of the same source."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from kernelderby.core.scoring import Estimate, estimate
from kernelderby.core.verdict import Verdict
from kernelderby.storage.base import COMPETES
from kernelderby.storage.models import Attempt, ProblemVersion, Submission

MOST_RUNS = 16      # of one entry, the newest: more change nothing that a board shows

Blocks = dict[str, list[list[float]]]


def score(session: Session, row: Submission, verdict: Verdict) -> None:
    """Set the score of a run that ends with this verdict. Where it competes, all runs of its entry get the score of all their blocks."""
    _set(row, _own(verdict))
    session.flush()
    if not row.competes:
        return
    others = _others(session, row)
    runs = [_blocks(verdict.environment, verdict.receipt), *(_blocks(said["environment"], said["receipt"]) for _, said in others)]
    cases = set(runs[0])
    if not others or not cases or any(set(run) != cases for run in runs):      # a run without its blocks stands alone
        return
    pooled = estimate([[block for run in runs for block in run[case]] for case in sorted(cases)])
    for run in (row, *(other for other, _ in others)):
        _set(run, pooled)
    session.flush()


def _own(verdict: Verdict) -> Estimate | None:
    if verdict.score_us is None:
        return None
    factor = _factor(verdict.environment)
    low, high = verdict.score_ci_us or (verdict.score_us, verdict.score_us)
    return Estimate(score_us=verdict.score_us * factor, low_us=low * factor, high_us=high * factor)


def _others(session: Session, row: Submission) -> list[tuple[Submission, dict[str, Any]]]:
    """The other runs of the entry on its board, with their verdicts, locked."""
    same = select(ProblemVersion.hash).where(ProblemVersion.id == row.version).scalar_subquery()
    found = session.execute(
        select(Submission, Attempt.verdict)
        .join(Attempt, (Attempt.submission == Submission.id) & (Attempt.attempt == Submission.attempt))
        .join(ProblemVersion, ProblemVersion.id == Submission.version)
        .where(text(COMPETES), Submission.id != row.id, Submission.entry_sha == row.entry_sha, ProblemVersion.hash == same,
               Submission.device == row.device, Submission.contest.is_not_distinct_from(row.contest))
        .order_by(Submission.id.desc()).limit(MOST_RUNS - 1).with_for_update(of=Submission)
    )
    return [(other, said) for other, said in found if said is not None]


def _blocks(environment: Mapping[str, Any], receipt: Mapping[str, Any]) -> Blocks:
    factor = _factor(environment)
    return {case: [[us * factor for us in block] for block in blocks] for case, blocks in receipt.get("blocks_us", {}).items()}


def _factor(environment: Mapping[str, Any]) -> float:
    return float(environment.get("factor", 1.0))


def _set(row: Submission, found: Estimate | None) -> None:
    row.score_us = found.score_us if found else None
    row.score_low_us, row.score_high_us = (found.low_us, found.high_us) if found else (None, None)
