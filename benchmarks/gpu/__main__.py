"""The GPU judge, measured on one GPU: tables while it goes on, JSON at the end, and each goal beside its figure.

    python -m benchmarks.gpu --out FILE [--device h200] [--only outcomes,speed,…] [--attacks early_done,…]
    DERBY_GPU=1 python -m benchmarks.gpu --out same.json --only resolution --resolution same
    python -m benchmarks.gpu --out all.json --only none --merge first.json same.json apart.json
"""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu import agreement, attacks, outcomes, questions, resolution, speed, spread
from benchmarks.gpu.bench import Bench, Options, open_bench
from benchmarks.gpu.gallery import GALLERY
from benchmarks.gpu.goals import print_goals
from kernelderby.core.settings import Settings
from kernelderby.judge.sandbox.devices import one_gpu

SECTIONS: dict[str, Callable[[Bench], Any]] = {
    "outcomes": outcomes.measure, "speed": speed.measure, "agreement": agreement.measure, "spread": spread.measure,
    "attacks": attacks.measure, "questions": questions.measure, "resolution": resolution.measure,
}


def main() -> None:
    """Run the sections that were asked for, each whatever became of the one before, then say which goals hold."""
    wanted, options, files = _asked_for()
    others = [json.loads(path.read_text()) for path in files]
    if not wanted:
        merged = _merged(others)
        options.out.write_text(json.dumps(merged | {"goals": print_goals(merged)}, indent=1) + "\n")
        return
    os.environ.update(one_gpu(Settings.from_env().gpu))      # what is measured outside boxes stands on the judge's GPU too
    with open_bench(options) as bench:
        for name in wanted:
            bench.section(name, SECTIONS[name])
        bench.keep("goals", print_goals(_merged([*others, bench.results])))


def _merged(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What several runs found: of a section that more than one holds, the last; of speed each part's last; of resolution all duels."""
    merged: dict[str, Any] = {}
    for results in found:
        before, merged = merged, merged | results
        for section, join in (("resolution", resolution.merged), ("speed", lambda new, old: {**old, **new})):
            found = [half for half in (results.get(section), before.get(section)) if half and "failed" not in half]
            if found:
                merged[section] = join(*found) if len(found) > 1 else found[0]
    return merged


def _asked_for() -> tuple[list[str], Options, list[Path]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--only", type=_names(SECTIONS), default=list(SECTIONS), help=f"{', '.join(SECTIONS)}; or none")
    parser.add_argument("--attacks", type=_names([attack.name for attack in GALLERY]), default=[attack.name for attack in GALLERY])
    parser.add_argument("--speed", type=_names(speed.PARTS), default=list(speed.PARTS), help=f"parts of it: {', '.join(speed.PARTS)}")
    parser.add_argument("--judgings", type=int, default=20, help="of the spread")
    parser.add_argument("--resolution", choices=("both", *resolution.KINDS), default="both", help="which half of it")
    parser.add_argument("--duels", type=int, default=40, help="of each kind of the resolution")
    parser.add_argument("--limit-s", type=float, default=540, help="of the resolution: no duel starts that might end later")
    parser.add_argument("--merge", type=Path, nargs="+", default=[], help="results of other runs, for the closing table")
    given = parser.parse_args()
    kinds = resolution.KINDS if given.resolution == "both" else (given.resolution,)
    return given.only, Options(out=given.out, device=given.device, attacks=tuple(given.attacks), speed=tuple(given.speed),
                               judgings=given.judgings, duels=given.duels, kinds=kinds, limit_s=given.limit_s), given.merge


def _names(known: Any) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        chosen = [] if text == "none" else text.split(",")
        if unknown := [name for name in chosen if name not in known]:
            raise argparse.ArgumentTypeError(f"not known: {', '.join(unknown)}; there are {', '.join(known)}")
        return chosen

    return names


if __name__ == "__main__":
    main()
