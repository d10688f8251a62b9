"""What differs between judging on a CPU and on a GPU: where data lies, how a box is played, how much of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from kernelderby.core.devices import DeviceClass
from kernelderby.core.verdict import Mode
from kernelderby.judge.referee.boxes import LentBox
from kernelderby.judge.referee.clock import Rig
from kernelderby.judge.referee.health import Hale, Health
from kernelderby.judge.referee.steadiness import Gauge, NoGauge

BLOCK_SHARE = 0.4     # of a card's free memory: what remains is for the baseline and the oracle, here and in the house box


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
    null_calls: int                               # before the blocks of a case, and again after them
    fresh_null_calls: int                         # by the entry's box before it holds the entry's code; 0: a box is like another
    null_of: Callable[[Sequence[Sequence[float]]], float]    # from blocks of null calls to one time; a busy machine makes calls longer,
                                                             # never shorter
    open_health: Callable[[], Health]             # what looks after the device between boxes
    gauge: Callable[[], Gauge]                    # what tells how the device is, around each block
    least_us: float                               # what this clock cannot tell from nothing, and an entry could save of a null call
    holds_baseline: bool                          # whether a block beside which the baseline took another time does not count
    block_s: float                                # a block's calls take no longer, but for the first
    block_bytes: Callable[[], int]                # of inputs and outputs of a block's calls, all of which are kept until it is over

    def net_us(self, walls_us: Sequence[float], null_us: float) -> list[float]:
        """Calls' own times: what a call that does nothing takes is off, and none is less than this clock can tell."""
        return [max(self.least_us, wall - null_us) for wall in walls_us]


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


def _open_gpu_health() -> Health:
    from kernelderby.judge.referee.cuda.health import GpuHealth

    return GpuHealth()


@cache
def _share_of_card() -> int:
    """Asked once, of what the first block of a referee finds free."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    return int(BLOCK_SHARE * free)


@cache
def _nvml() -> Gauge:
    from kernelderby.judge.referee.cuda.machine import this_gpu
    from kernelderby.judge.referee.cuda.nvml import NvmlUnavailable

    try:
        return this_gpu()
    except NvmlUnavailable:
        return NoGauge()


CPU = Kind(torch_device="cpu", open_rig=Rig, plans=_plans(3, 10), null_calls=5, fresh_null_calls=0, open_health=Hale,
           null_of=lambda blocks: min(map(min, blocks)), gauge=NoGauge,
           least_us=20.0, holds_baseline=False, block_s=2.0 / 3, block_bytes=lambda: 256 << 20)
GPU = Kind(torch_device="cuda", open_rig=_open_cuda_rig, plans=_plans(4, 25), null_calls=30, fresh_null_calls=60,
           open_health=_open_gpu_health, null_of=lambda blocks: min(map(median, blocks)), gauge=_nvml, least_us=1.0, holds_baseline=True,
           block_s=2.0, block_bytes=_share_of_card)
