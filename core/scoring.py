"""Scores that stand up: the geometric mean of medians, its interval by bootstrap, and ranks that admit ties."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

LAUNCH_BOUND_US = 50.0      # a shorter case mostly measures the start of a call: it is shown, and decides no crown

Blocks = Sequence[Sequence[float]]   # the timed blocks of one case, each the times of its calls in µs

# Student's t: two-sided, 95 %, by degrees of freedom from 1 on. Beyond the last it is taken as the last: never too narrow.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A score and its 95 % interval, in µs."""

    score_us: float
    low_us: float
    high_us: float


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """One score over another, with its 95 % interval."""

    ratio: float
    low: float
    high: float


def estimate(cases: Sequence[Blocks], seed: int = 0) -> Estimate:
    """The score of an entry: geometric mean over cases of the median over all calls, with its interval over blocks."""
    low, high = bootstrap_ci(cases, seed=seed)
    score = geomean([median_of(blocks) for blocks in cases])
    return Estimate(score_us=score, low_us=min(low, score), high_us=max(high, score))


def geomean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers. Raises ValueError for none, or one that is not positive and finite."""
    if not values or not all(0 < v < math.inf for v in values):
        raise ValueError("a geometric mean needs positive finite numbers")
    return math.exp(math.fsum(math.log(v) for v in values) / len(values))


def bootstrap_ci(cases: Sequence[Blocks], *, seed: int = 0, draws: int = 1000, level: float = 0.95) -> tuple[float, float]:
    """The interval of the score when the blocks of every case are drawn again with replacement. Same seed, same interval."""
    generator = random.Random(seed)
    medians = [_Redrawn(blocks) for blocks in cases]
    scores = sorted(geomean([case.draw(generator) for case in medians]) for _ in range(draws))
    tail = (1 - level) / 2
    return _quantile(scores, tail), _quantile(scores, 1 - tail)


def paired(cases: Sequence[tuple[Blocks, Blocks]], blocks_a_box: int) -> Ratio:
    """One entry's score over another's, from blocks played in pairs: block i of the one is a neighbour of block i of the other.

    A case's ratio is the geometric mean over pairs of the ratio of medians. `blocks_a_box` neighbouring pairs were played in the same
    two boxes, whose own offsets they share; so the boxes are what the interval is over: Student's t on the logarithms. (Redrawing so few
    with replacement covers the truth in 80 to 90 % of duels only.) Raises ValueError for fewer than two boxes of each.
    """
    pairs = [[math.log(median(ours) / median(theirs)) for ours, theirs in zip(a, b, strict=True)] for a, b in cases]
    boxes = [fmean(fmean(case[i : i + blocks_a_box]) for case in pairs) for i in range(0, len(pairs[0]), blocks_a_box)]
    if len(boxes) < 2:
        raise ValueError("two entries are compared over two boxes of each, or more")
    middle = fmean(boxes)
    half = _T95[min(len(boxes) - 2, len(_T95) - 1)] * stdev(boxes) / math.sqrt(len(boxes))
    return Ratio(ratio=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half))


def rank_intervals(entries: Sequence[Estimate], min_effect: float = 0.005, bound: float = 0.0) -> list[tuple[int, int]]:
    """For each entry [1 + entries significantly faster, n − entries significantly slower].

    Significant: the interval of the ratio excludes 1, and the gap is larger than the shares `min_effect` and `bound`.
    """
    order = sorted(range(len(entries)), key=lambda i: entries[i].score_us)
    logs = [math.log(entries[i].score_us) for i in order]
    errors = [_log_error(entries[i]) for i in order]
    widest = max(errors, default=0.0)
    least = math.log1p(max(min_effect, bound))
    faster, slower = [0] * len(order), [0] * len(order)
    certain = [0] * (len(order) + 1)   # differences: how many entries beat every entry from here on
    for i in range(len(order)):
        j = i + 1
        while j < len(order) and logs[j] - logs[i] <= _margin(errors[i], widest, least):
            if logs[j] - logs[i] > _margin(errors[i], errors[j], least):
                slower[i] += 1
                faster[j] += 1
            j += 1
        slower[i] += len(order) - j
        certain[j] += 1
    sure = 0
    ranks = [(0, 0)] * len(order)
    for place, index in enumerate(order):
        sure += certain[place]
        ranks[index] = (1 + faster[place] + sure, len(order) - slower[place])
    return ranks


def dueled_ranks(
    entries: Sequence[Estimate], duels: Mapping[tuple[int, int], Ratio], min_effect: float = 0.005, bound: float = 0.0
) -> list[tuple[int, int]]:
    """`rank_intervals`, where for the pairs of places in `duels` (first over second) the duel says which of the two is faster."""
    ranks = [list(rank) for rank in rank_intervals(entries, min_effect, bound)]
    least = math.log1p(max(min_effect, bound))
    for (one, other), duel in duels.items():
        said, before = sign_of(duel, min_effect, bound), _sign(entries[one], entries[other], least)
        for place, sign in ((one, 1), (other, -1)):     # +1: this one is the slower
            ranks[place][0] += (said == sign) - (before == sign)
            ranks[place][1] -= (said == -sign) - (before == -sign)
    return [(first, last) for first, last in ranks]


def sign_of(duel: Ratio, min_effect: float, bound: float) -> int:
    """1: the first is significantly slower, -1: faster, 0: neither: the interval holds 1, or the gap is within `min_effect` or `bound`."""
    if duel.low <= 1 <= duel.high or abs(math.log(duel.ratio)) <= math.log1p(max(min_effect, bound)):
        return 0
    return 1 if duel.ratio > 1 else -1


def median_of(blocks: Blocks) -> float:
    """Of all calls of all blocks."""
    return median([t for block in blocks for t in block])


def _sign(one: Estimate, other: Estimate, least: float) -> int:
    gap = math.log(one.score_us) - math.log(other.score_us)
    if abs(gap) <= _margin(_log_error(one), _log_error(other), least):
        return 0
    return 1 if gap > 0 else -1


def _margin(one: float, other: float, least: float) -> float:
    """The gap of two log scores that is not significant yet, by their errors and the least that counts."""
    return max(least, math.hypot(one, other))


def _log_error(entry: Estimate) -> float:
    """Half the width of the interval of log(score); two of them add as the root of squares, since the runs are independent."""
    return (math.log(entry.high_us) - math.log(entry.low_us)) / 2


class _Redrawn:
    """Draws of one case's blocks; few blocks have few distinct draws, so each median is worked out once."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = [list(block) for block in blocks]
        self._known: dict[tuple[int, ...], float] = {}

    def draw(self, generator: random.Random) -> float:
        count = len(self._blocks)
        drawn = tuple(sorted(generator.randrange(count) for _ in range(count)))
        if drawn not in self._known:
            self._known[drawn] = median_of([self._blocks[i] for i in drawn])
        return self._known[drawn]


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between neighbours."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
