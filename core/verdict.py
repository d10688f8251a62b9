"""What a judging says: outcome, gate, numbers. Also the wire form that every door and export reads."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class Outcome(StrEnum):
    """What was seen."""

    ACCEPTED = "accepted"
    COMPILE_ERROR = "compile_error"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_VALUES = "wrong_values"
    NONFINITE = "nonfinite"
    NONDETERMINISTIC = "nondeterministic"
    RUNTIME_ERROR = "runtime_error"
    ILLEGAL_MEMORY = "illegal_memory"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    REFUSED = "refused"            # a rule broken without a wrong value
    UNSTABLE = "unstable"
    CANCELLED = "cancelled"
    JUDGE_ERROR = "judge_error"    # ours


class Gate(StrEnum):
    """Where it was seen: the seven gates in order, and `device` (this class cannot run it)."""

    RIGHT = "right"
    ANY_INPUT = "any_input"
    ANY_SHAPE = "any_shape"
    DOES_WORK = "does_work"
    HONEST_TIME = "honest_time"
    REAL_TRACES = "real_traces"
    SERVES = "serves"
    DEVICE = "device"


class State(StrEnum):
    """Where a submission is in its life."""

    QUEUED = "queued"
    BUILDING = "building"      # a runner has it and starts
    RUNNING = "running"
    DONE = "done"


class Mode(StrEnum):
    """How much of the judge a submission asks for."""

    TEST = "test"
    BENCHMARK = "benchmark"
    RANKED = "ranked"


class Flag(StrEnum):
    """A remark beside an outcome that readers must see."""

    LIBRARY = "library"
    LAUNCH_BOUND = "launch_bound"
    UNCERTIFIED = "uncertified"
    ABOVE_MEASURED_LIGHT = "above_measured_light"
    NO_SANDBOX = "no_sandbox"


Count = Annotated[int, Field(ge=0, lt=2**31)]     # a box may say a number that no reader of JSON can hold


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False, extra="forbid")


class CompileReport(_Wire):
    """What the compiler made of one kernel for one target, without a GPU."""

    kernel: str
    arch: str                       # sm_90a, sm_100a
    registers: Count | None = None  # a thread
    shared_bytes: Count | None = None
    spills: Count | None = None     # registers spilled, a thread
    tensor_core: str | None = None  # wgmma, tcgen05, mma or None
    would_launch: bool = False      # fits the target's shared memory and compiled
    message: str | None = None      # why it did not compile


class CaseResult(_Wire):
    """One public case. Times in µs are the referee's, after the null call's time was taken off."""

    name: str
    outcome: Outcome
    time_us: float | None = None
    ci_us: tuple[float, float] | None = None
    claimed_us: float | None = None         # the box's own word: shown, never scored
    baseline_us: float | None = None
    armed: bool | None = None               # None on cpu
    speed_of_light: float | None = None
    of_measured: float | None = None
    max_abs_err: float | None = None
    worst_row_rel_l2: float | None = None
    calls: int = 0                          # timed calls, over all blocks
    message: str | None = None


class Verdict(_Wire):
    """The result of one attempt. Field order is the order on the wire."""

    submission: int | None = None           # None: judged here, without a server
    problem: str
    version: str
    device: str
    mode: Mode
    outcome: Outcome | None = None          # None until done
    gate: Gate | None = None
    message: str | None = None              # what to do about it
    score_us: float | None = None
    score_ci_us: tuple[float, float] | None = None
    speedup: float | None = None
    speed_of_light: float | None = None
    of_measured: float | None = None
    bound: str | None = None
    rank: tuple[int, int] | None = None
    state: State = State.DONE
    attempt: int = 1
    flags: list[Flag] = Field(default_factory=list)
    compile: list[CompileReport] = Field(default_factory=list)
    cases: list[CaseResult] = Field(default_factory=list)
    stages_s: dict[str, float] = Field(default_factory=dict)       # queue build box load check time total; total: claim to verdict
    environment: dict[str, Any] = Field(default_factory=dict)
    receipt: dict[str, Any] = Field(default_factory=dict)          # gate set, seed commitment, every block's times
    log: str | None = None                  # the contestant's own output on public cases, cleaned and capped

    @property
    def accepted(self) -> bool:
        """Whether the entry passed all its mode asks for."""
        return self.outcome is Outcome.ACCEPTED
