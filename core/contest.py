"""A contest's rules and stages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kernelderby.core.verdict import Mode


class Stage(StrEnum):
    """Where a contest stands. It follows from the clock, but for the last one."""

    COMING = "coming"          # problems are hidden, registration is open
    OPEN = "open"
    FROZEN = "frozen"          # entries are taken, contestants see the board as it was when it froze
    ENDED = "ended"            # no entries any more; the final heat, appeals
    REVEALED = "revealed"      # final order, seeds and, where so said, sources are public


@dataclass(frozen=True, kw_only=True)
class ModeQuota:
    """What one contestant, or one team, may send in a mode over the whole contest. None: no limit."""

    runs: int | None = None
    gpu_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class ContestRules:
    """What an organizer sets."""

    title: str
    starts_at: datetime
    ends_at: datetime
    freezes_at: datetime | None = None
    by_team: bool = False
    by_invitation: bool = False
    sources: str = "owner"                                   # who may read sources once it is revealed: owner, public
    quotas: Mapping[Mode, ModeQuota] = field(default_factory=dict)
    gpu_seconds: float | None = None                         # hard cap of the whole contest
    finalists: int = 5
    final_runs: int = 5


def stage_of(starts_at: datetime, freezes_at: datetime | None, ends_at: datetime, revealed_at: datetime | None, now: datetime) -> Stage:
    """The stage at a time."""
    if revealed_at is not None:
        return Stage.REVEALED
    if now >= ends_at:
        return Stage.ENDED
    if now < starts_at:
        return Stage.COMING
    return Stage.FROZEN if freezes_at is not None and now >= freezes_at else Stage.OPEN
