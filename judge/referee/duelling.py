"""The story of a duel: fresh boxes for both entries, again and again; in each, every case's blocks by turns, every call checked.

One of the two boxes is frozen and has no call of its own whenever the other one plays.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kernelderby.core.devices import DeviceClass
from kernelderby.core.duel import PLANS, Duel, DuelCase, Fallen, Side, with_result
from kernelderby.core.problem import Case
from kernelderby.core.problem_folder import Problem
from kernelderby.core.verdict import Outcome
from kernelderby.judge.referee.arena import Layout
from kernelderby.judge.referee.clock import binding
from kernelderby.judge.referee.entry import Entry, Played, Spent
from kernelderby.judge.referee.findings import Ended, Finding, NotArmable, with_limit
from kernelderby.judge.referee.house import House
from kernelderby.judge.referee.inputs import ProblemCode, Seeds
from kernelderby.judge.referee.kinds import Kind
from kernelderby.judge.referee.link import Challenge, Job, Link

SIDES: tuple[Side, ...] = ("a", "b")
_TURNS: tuple[tuple[Side, ...], ...] = (("a", "b"), ("b", "a"))     # of neighbouring pairs, so that a drift favours nobody


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What the referee of a problem lends a duel."""

    problem: Problem
    device: DeviceClass
    code: ProblemCode
    cases: list[Case]
    layouts: list[Layout]
    arena_bytes: int                                  # of one that holds any of the cases
    house: House
    box_offset_us: Callable[[Entry, Link], float]     # of a box that was lent for an entry and does not hold it yet


@dataclass
class _Round:
    """What one case's blocks in one box of each entry took: wall times in µs."""

    offset_us: dict[Side, float]                                           # of each box
    blocks_us: dict[Side, list[list[float]]] = field(default_factory=dict)
    armed: dict[Side, bool | None] = field(default_factory=dict)
    null: dict[bool | None, list[float]] = field(default_factory=dict)     # a null call costs an armed entry and another one differently


class _Fell(Exception):
    """An entry did something wrong."""

    def __init__(self, side: Side, finding: Finding) -> None:
        super().__init__(finding.message)
        self.side, self.finding = side, finding


class _Waits(Exception):
    """An entry waits for the GPU while it is launched: it has to be played unarmed, in another box."""

    def __init__(self, side: Side) -> None:
        super().__init__(side)
        self.side = side


def play_duel(ground: Ground, challenge: Challenge, link: Link) -> Duel:
    """Both entries against each other. What one of them does wrong ends it and is told; a cancellation makes it void."""
    started = time.monotonic()
    duel = Duel(problem=ground.problem.name, version=ground.problem.version, device=ground.device.name,
                pairs=PLANS[ground.device.kind].pairs)
    try:
        duel = with_result(duel.model_copy(update={"cases": _Match(ground, challenge, link).play()}))
    except _Fell as fell:
        duel = duel.model_copy(update=_ended_by(fell, ground.problem))
    except Ended as end:      # in the house's calls
        duel = duel.model_copy(update={"void": end.finding.message})
    return duel.model_copy(update={"seconds": round(time.monotonic() - started, 3)})


class _Match:
    """One duel under way."""

    def __init__(self, ground: Ground, challenge: Challenge, link: Link) -> None:
        self._ground, self._link = ground, link
        self._jobs: dict[Side, Job] = {"a": challenge.first, "b": challenge.second}
        self._plan, self._kind = PLANS[ground.device.kind], ground.code.kind
        self._may_arm: dict[Side, bool] = {"a": True, "b": True}

    def play(self) -> list[DuelCase]:
        """Every box's blocks of every case. Raises _Fell."""
        rounds: list[list[_Round]] = []
        while len(rounds) < self._plan.boxes:
            try:
                rounds.append(self._play_round(len(rounds)))
            except _Waits as waits:
                self._may_arm[waits.side] = False      # and once more, with fresh boxes
                continue
            self._link.event("time", {"case": "duel", "block": len(rounds), "of": self._plan.boxes})
        return [DuelCase(name=case.name, a_us=_net("a", of_case, self._kind), b_us=_net("b", of_case, self._kind))
                for case, *of_case in zip(self._ground.cases, *rounds, strict=True)]

    def _play_round(self, number: int) -> list[_Round]:
        with self._entries(number) as entries:
            offsets = {side: self._loaded(side, entry) for side, entry in entries.items()}
            return [self._play_case(entries, case, layout, offsets, number)
                    for case, layout in zip(self._ground.cases, self._ground.layouts, strict=True)]

    @contextmanager
    def _entries(self, number: int) -> Iterator[dict[Side, Entry]]:
        """Both entries' fresh boxes. They see the same inputs, other ones than in any box before."""
        entries: dict[Side, Entry] = {}
        try:
            for side in SIDES:
                seed = hashlib.sha256(self._jobs["a"].seed + number.to_bytes(4, "big")).digest()
                entries[side] = Entry(self._link, self._jobs[side], self._ground.code, Seeds(seed, self._kind.torch_device), Spent(),
                                      may_arm=self._may_arm[side])
            yield entries
        finally:
            for entry in entries.values():
                entry.close()

    def _loaded(self, side: Side, entry: Entry) -> float:
        """Have an entry loaded; its box's offset in µs."""
        with _as(side):
            entry.share(self._ground.arena_bytes)
            offset_us = self._ground.box_offset_us(entry, self._link)
            entry.load()
        return offset_us

    def _play_case(self, entries: dict[Side, Entry], case: Case, layout: Layout, offset_us: dict[Side, float], number: int) -> _Round:
        played: dict[Side, Played] = {}
        for side in SIDES:
            with _as(side, case):
                played[side] = entries[side].bind(case, layout)
        null = self._play_nulls(entries, played, layout)
        for pair in range(number, number + self._plan.pairs):
            for side in _TURNS[pair % 2]:
                with _as(side, case):
                    entries[side].play_block(played[side], self._plan.calls)
        return _Round(offset_us, {side: one.blocks_us for side, one in played.items()},
                      {side: one.is_armed for side, one in played.items()}, null)

    def _play_nulls(self, entries: dict[Side, Entry], played: dict[Side, Played], layout: Layout) -> dict[bool | None, list[float]]:
        """The twin's null calls as each entry's are played, which also shows how long it takes to prepare one."""
        house, data = self._ground.house, played["a"].warm.data
        bound = binding(self._ground.problem.spec, layout)
        null: dict[bool | None, list[float]] = {}
        for armed in {one.is_armed for one in played.values()}:
            sides = [side for side in SIDES if played[side].is_armed == armed]
            lead_in = max(played[side].lead_in for side in sides)
            null[armed] = house.null_block(self._link, bound, data, self._kind.null_calls, lead_in, armed=armed)
            for side in sides:
                entries[side].expect_preparation(house.quiet_us(layout))
        return null


def _net(side: Side, rounds: Sequence[_Round], kind: Kind) -> list[list[float]]:
    """An entry's blocks of one case, the time of a null call in its box taken off."""
    blocks = []
    for this in rounds:
        armed = this.armed[side]
        null = kind.null_of([other.null[armed] for other in rounds if armed in other.null])
        null += this.offset_us[side] if armed else 0.0
        blocks += [[round(us, 4) for us in kind.net_us(block, null)] for block in this.blocks_us[side]]
    return blocks


@contextmanager
def _as(side: Side, case: Case | None = None) -> Iterator[None]:
    """What ends the judging in here is this entry's doing. Raises _Fell, _Waits."""
    try:
        yield
    except NotArmable:
        raise _Waits(side) from None
    except Ended as end:
        where = f"Case {case.name}: " if case else ""
        raise _Fell(side, replace(end.finding, message=f"{where}{end.finding.message}")) from None


def _ended_by(fell: _Fell, problem: Problem) -> dict[str, object]:
    finding = with_limit(fell.finding, problem.spec.limits)
    if finding.outcome is Outcome.CANCELLED:
        return {"void": "The duel was cancelled."}
    return {"fallen": Fallen(entry=fell.side, outcome=finding.outcome, gate=finding.gate, message=finding.message)}
