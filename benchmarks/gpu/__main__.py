"""The GPU judge, measured on one GPU: tables while it goes on, JSON at the end, and each goal beside its figure.

    python -m benchmarks.gpu --out FILE [--device h200] [--only outcomes,speed,…] [--attacks early_done,…]
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu import agreement, attacks, outcomes, questions, resolution, speed, spread
from benchmarks.gpu.bench import Bench, Options, open_bench
from benchmarks.gpu.gallery import GALLERY
from benchmarks.gpu.goals import print_goals

SECTIONS: dict[str, Callable[[Bench], Any]] = {
    "outcomes": outcomes.measure, "speed": speed.measure, "agreement": agreement.measure, "spread": spread.measure,
    "attacks": attacks.measure, "questions": questions.measure, "resolution": resolution.measure,
}


def main() -> None:
    """Run the sections that were asked for, each whatever became of the one before, then say which goals hold."""
    wanted, options = _asked_for()
    with open_bench(options) as bench:
        for name in wanted:
            bench.section(name, SECTIONS[name])
        bench.keep("goals", print_goals(bench.results))


def _asked_for() -> tuple[list[str], Options]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--only", type=_names(SECTIONS), default=list(SECTIONS), help=", ".join(SECTIONS))
    parser.add_argument("--attacks", type=_names([attack.name for attack in GALLERY]), default=[attack.name for attack in GALLERY])
    parser.add_argument("--judgings", type=int, default=20, help="of the spread")
    parser.add_argument("--duels", type=int, default=40, help="of each kind of the resolution")
    given = parser.parse_args()
    return given.only, Options(out=given.out, device=given.device, attacks=tuple(given.attacks), judgings=given.judgings,
                               duels=given.duels)


def _names(known: Any) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        chosen = text.split(",")
        if unknown := [name for name in chosen if name not in known]:
            raise argparse.ArgumentTypeError(f"not known: {', '.join(unknown)}; there are {', '.join(known)}")
        return chosen

    return names


if __name__ == "__main__":
    main()
