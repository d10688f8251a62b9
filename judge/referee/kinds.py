"""What differs between judging on a CPU and on a GPU: where data lies, how a box is played, how much of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernelderby.core.devices import DeviceClass
from kernelderby.core.problem import Bind
from kernelderby.core.verdict import Mode
from kernelderby.judge.referee.boxes import LentBox
from kernelderby.judge.referee.clock import Rig


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much a mode plays."""

    blocks: int
    calls: int            # at most, a block
    is_timed: bool
    has_baseline: bool
    has_hidden: bool


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of runner."""

    torch_device: str                             # where inputs, baselines and checks live
    open_rig: Callable[[LentBox, int], Rig]       # for a box, and an arena of so many bytes
    plans: Mapping[Mode, Plan]
    kept_in_a_block: frozenset[Bind]              # inputs settled once a block; where renewing costs little, none is, so that nothing
                                                  # that an entry makes of one is of use to its next call
    null_calls: int                               # before the blocks of a case, and again after them
    least_us: float                               # what this clock cannot tell from nothing, and an entry could save of a null call
    block_s: float                                # a block's calls take no longer, but for the first
    block_bytes: int                              # of inputs made ahead


def kind_of(device: DeviceClass) -> Kind:
    """The kind of a class."""
    return GPU if device.arch else CPU


def _plans(blocks: int, calls: int) -> dict[Mode, Plan]:
    return {
        Mode.TEST: Plan(blocks=1, calls=1, is_timed=False, has_baseline=False, has_hidden=False),
        Mode.BENCHMARK: Plan(blocks=blocks, calls=calls, is_timed=True, has_baseline=False, has_hidden=False),
        Mode.RANKED: Plan(blocks=blocks, calls=calls, is_timed=True, has_baseline=True, has_hidden=True),
    }


def _open_cuda_rig(box: LentBox, arena_bytes: int) -> Rig:
    from kernelderby.judge.referee.cuda.clock import CudaRig  # needs cuda-bindings, which no CPU runner has

    return CudaRig(box, arena_bytes)


CPU = Kind(torch_device="cpu", open_rig=Rig, plans=_plans(3, 10), kept_in_a_block=frozenset(), null_calls=5,
           least_us=20.0, block_s=2.0 / 3, block_bytes=256 << 20)
GPU = Kind(torch_device="cuda", open_rig=_open_cuda_rig, plans=_plans(4, 25), kept_in_a_block=frozenset({Bind.BLOCK}),
           null_calls=20, least_us=1.0, block_s=2.0, block_bytes=32 << 30)
