"""A contest's rules and stages."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from kernelderby.core.errors import RequestError
from kernelderby.core.verdict import Mode

SOURCES = ("owner", "public")


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


def check_rules(rules: ContestRules) -> None:
    """Raises RequestError where rules contradict each other."""
    if not rules.title.strip() or len(rules.title) > 200:
        raise RequestError("Give the contest a title of 1 to 200 characters.")
    if rules.ends_at <= rules.starts_at:
        raise RequestError("The contest ends before it starts. Choose a later end.")
    if rules.freezes_at is not None and not rules.starts_at <= rules.freezes_at <= rules.ends_at:
        raise RequestError("The freeze lies outside the contest. Choose a time between its start and its end.")
    if rules.sources not in SOURCES:
        raise RequestError(f"After the reveal sources are for {' or '.join(SOURCES)}; {rules.sources[:40]!r} is neither.")
    if not 2 <= rules.finalists <= 50 or not 1 <= rules.final_runs <= 50:
        raise RequestError("A final heat is for 2 to 50 finalists with 1 to 50 runs each.")


def check_change(old: ContestRules, new: ContestRules, stage: Stage, now: datetime) -> None:
    """Raises RequestError for a change that comes too late: once started, only freeze and end may move, later or to now."""
    check_rules(new)
    if stage is Stage.COMING:
        if new.ends_at <= now:
            raise RequestError("The contest would have ended already. Choose an end that is to come.")
        return
    if replace(new, freezes_at=old.freezes_at, ends_at=old.ends_at) != old:
        raise RequestError(f"The contest is {stage}: only its freeze and its end may be moved now.")
    if new.ends_at != old.ends_at and (now >= old.ends_at or now != new.ends_at < old.ends_at):
        raise RequestError("The end of a contest that began can only move later, or to now, and only before it is reached.")
    if new.freezes_at != old.freezes_at:
        _check_freeze(old, new, now)


def _check_freeze(old: ContestRules, new: ContestRules, now: datetime) -> None:
    if new.freezes_at is None and new.ends_at == now:      # ended before it froze
        return
    if old.freezes_at is not None and now >= old.freezes_at:
        raise RequestError("The boards are frozen already; what was hidden stays hidden until the reveal.")
    earliest = old.freezes_at or old.ends_at
    if new.freezes_at is None or now != new.freezes_at < earliest:
        raise RequestError("The freeze of a contest that began can only move later, or to now.")
