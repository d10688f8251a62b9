"""Wrong answers anyone would try first. A problem is fit for a board when its checks catch each of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from kernelderby.core.problem import Case
from kernelderby.judge.referee.checking import CaseCheck, Outputs
from kernelderby.judge.referee.inputs import ProblemCode, Seeds

DRAWS = 4      # inputs tried: by chance an answer may be right for one of them


@dataclass(frozen=True)
class Scene:
    """What a cheat may use: its output's honest value now and for another input, and the inputs."""

    honest: torch.Tensor
    stale: torch.Tensor
    inputs: list[torch.Tensor]


def surviving(code: ProblemCode, case: Case, seeds: Seeds) -> Iterator[tuple[str, str]]:
    """Cheat and output for each that passes the checks on every draw while the other outputs are honest."""
    for cheat, make in CHEATS.items():
        for name in code.spec.outputs:
            if all(_passes(code, case, seeds, f"{case.name}/cheat{i}", name, make) for i in range(DRAWS)):
                yield cheat, name


def _passes(code: ProblemCode, case: Case, seeds: Seeds, label: str, name: str, make: Callable[[Scene], torch.Tensor | None]) -> bool:
    drawn, other = (code.draw(case, seeds.generator(f"{label}/{which}")) for which in ("now", "before"))
    outputs: Outputs = code.baseline(drawn.data, case)
    inputs = [data for data in drawn.data.values() if isinstance(data, torch.Tensor)]
    answer = make(Scene(outputs[name], code.baseline(other.data, case)[name], inputs))
    if answer is None:       # it has no form for this output
        return False
    return CaseCheck(code, case, seeds).check(label, drawn, outputs | {name: answer}) is None


def _garbage(scene: Scene) -> torch.Tensor:
    """What memory held before: the null kernel writes nothing."""
    raw = torch.randint(256, (scene.honest.numel() * scene.honest.element_size(),), dtype=torch.uint8, device=scene.honest.device)
    return raw.view(scene.honest.dtype).view(scene.honest.shape)


def _an_input(scene: Scene) -> torch.Tensor | None:
    return next((t.clone() for t in scene.inputs if (t.shape, t.dtype) == (scene.honest.shape, scene.honest.dtype)), None)


def _with_nan(scene: Scene) -> torch.Tensor | None:
    if not scene.honest.is_floating_point():
        return None
    answer = scene.honest.clone()
    answer.view(-1)[-1:] = torch.nan
    return answer


def _truncated(scene: Scene) -> torch.Tensor:
    """The last quarter of the output is left at zero."""
    answer = scene.honest.clone()
    answer.view(-1)[-(-answer.numel() * 3 // 4) :] = 0
    return answer


def _scaled(scene: Scene) -> torch.Tensor | None:
    return scene.honest * 1.01 if scene.honest.is_floating_point() else None


CHEATS: dict[str, Callable[[Scene], torch.Tensor | None]] = {
    "nothing written": _garbage,
    "zeros": lambda scene: torch.zeros_like(scene.honest),
    "ones": lambda scene: torch.ones_like(scene.honest),
    "an input": _an_input,
    "the answer for an earlier input": lambda scene: scene.stale,
    "1.01 times the answer": _scaled,
    "one NaN": _with_nan,
    "the first three quarters": _truncated,
}
