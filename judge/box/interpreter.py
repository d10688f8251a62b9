"""Triton's interpreter, made fit for judging: launches are remembered for the compile report, and what it computes wrongly raises."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelderby.judge.box.fault import Unsupported

MOST_LAUNCHES = 8    # distinct ones, of which a report is made
_MISSING = object()

_BF16_DOT = ("tl.dot of bfloat16 is wrong in Triton's interpreter, which runs kernels on this device class: "
             "give it float16 or float32 operands here, or send the kernel to a GPU class.")
_BF16_ARITHMETIC = ("arithmetic on bfloat16 is wrong in Triton's interpreter, which runs kernels on this device class: "
                    "compute in float32 (x.to(tl.float32)) and convert back when storing.")


@dataclass(frozen=True)
class Pointer:
    """What the compiler needs to know of a tensor argument. Triton takes anything with a dtype and a data_ptr for one."""

    dtype: Any       # torch's
    address: int     # modulo 16: aligned or not

    def data_ptr(self) -> int:
        return self.address


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One distinct launch of a kernel: what it would be compiled for."""

    kernel: Any                   # triton's InterpretedFunction
    arguments: tuple[Any, ...]    # tensors as Pointer
    options: dict[str, Any]       # keyword arguments, num_warps and its like among them

    @property
    def constants(self) -> dict[str, Any]:
        """What it is compiled for besides types: constexpr arguments and options, by name."""
        named = dict(zip(self.kernel.arg_names, self.arguments, strict=False)) | self.options
        return {name: value for name, value in named.items() if _is_constant(self.kernel, name)}


class Recorder:
    """Remembers the launches that the interpreter saw, and the attributes of triton that it replaced to run them."""

    def __init__(self) -> None:
        self._launches: dict[Any, Launch] = {}
        self._replaced: dict[tuple[int, str], tuple[Any, Any]] = {}

    @property
    def launches(self) -> list[Launch]:
        """Distinct launches, in the order they came."""
        return list(self._launches.values())

    def forget(self) -> None:
        """Start afresh for another source."""
        self._launches.clear()

    def note(self, kernel: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Remember a launch, unless one that compiles alike is known. Takes microseconds: it happens inside timed calls."""
        if len(self._launches) >= MOST_LAUNCHES:
            return
        named = [*zip(kernel.arg_names, arguments, strict=False), *sorted(options.items())]
        key = (id(kernel), *((name, repr(value) if _is_constant(kernel, name) else _likeness(value)) for name, value in named))
        if key not in self._launches:
            kept = {name: _described(value) for name, value in options.items()}
            self._launches[key] = Launch(kernel=kernel, arguments=tuple(map(_described, arguments)), options=kept)

    def note_replaced(self, owner: Any, name: str) -> None:
        """Remember an attribute as it is before the interpreter first replaces it."""
        self._replaced.setdefault((id(owner), name), (owner, vars(owner).get(name, _MISSING)))

    def put_back(self) -> None:
        """Undo every replacement, also those the interpreter itself leaves behind."""
        for (_, name), (owner, original) in self._replaced.items():
            if original is not _MISSING:
                setattr(owner, name, original)
            elif name in vars(owner):
                delattr(owner, name)


def install(recorder: Recorder) -> None:
    """Watch launches and replace what the interpreter gets wrong. To be called once, before any kernel is defined."""
    from triton.runtime import interpreter

    _watch(interpreter, recorder)
    _raise_on_bf16(interpreter.InterpreterBuilder)
    _round_to_bf16(interpreter)
    _take_first_config()


def _watch(interpreter: Any, recorder: Recorder) -> None:
    run, scope = interpreter.InterpretedFunction.run, getattr(interpreter, "_LangPatchScope", None)

    def run_and_note(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not warmup:
            recorder.note(self, args, kwargs)
        return run(self, *args, grid=grid, warmup=warmup, **kwargs)

    interpreter.InterpretedFunction.run = run_and_note
    if scope is None:    # older than triton 3.6: no report can be made there
        return
    set_attr = scope.set_attr

    def set_and_note(self: Any, owner: Any, name: str, value: Any) -> None:
        recorder.note_replaced(owner, name)
        set_attr(self, owner, name, value)

    scope.set_attr = set_and_note


def _raise_on_bf16(builder: Any) -> None:
    """The interpreter keeps bfloat16 as raw 16-bit integers, and would multiply, add and compare those."""
    builder.create_dot = _refusing(builder.create_dot, _BF16_DOT)
    for name in ("binary_op", "ternary_op", "create_fma", "unary_op"):
        setattr(builder, name, _refusing(getattr(builder, name), _BF16_ARITHMETIC))
    if not hasattr(builder, "get_bf16"):
        builder.get_bf16 = _refuse_constant


def _refusing(operation: Any, sentence: str) -> Any:
    def operate(self: Any, *operands: Any) -> Any:
        for operand in operands:
            if getattr(getattr(operand, "dtype", None), "name", None) == "bf16" and operands[-1] is not np.where:
                raise Unsupported(sentence)
        return operation(self, *operands)

    return operate


def _refuse_constant(builder: Any, value: float) -> Any:
    raise Unsupported(_BF16_ARITHMETIC)


def _round_to_bf16(interpreter: Any) -> None:
    """The interpreter cuts float32 off where GPUs round to the nearest."""
    convert, bf16 = interpreter._convert_float, interpreter.tl.bfloat16

    def convert_float(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        if target == bf16 and source == interpreter.tl.float32 and rounding is None:
            return nearest_bf16(data)
        return convert(data, source, target, rounding)

    interpreter._convert_float = convert_float


def nearest_bf16(data: np.ndarray) -> np.ndarray:
    """The bits of float32 numbers as bfloat16, ties to even."""
    bits = np.ascontiguousarray(data, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(data), 0x7FC0, rounded.reshape(data.shape)).astype(np.uint16)


def _take_first_config() -> None:
    """An autotuner measures on a GPU; interpreted times say nothing of one, so its first configuration runs."""
    from triton.runtime.autotuner import Autotuner

    Autotuner._bench = lambda self, *args, config, **meta: [1.0, 1.0, 1.0]


def _likeness(value: Any) -> Any:
    """Equal for two arguments that the compiler treats alike: it looks whether an integer is 1, a multiple of 16, how wide it is."""
    if hasattr(value, "data_ptr"):
        return str(value.dtype), value.data_ptr() % 16
    if _is_descriptor(value):
        return _likeness(value.base), tuple(value.block_shape), value.padding
    if isinstance(value, int) and not isinstance(value, bool):
        return "int", value == 1, value % 16 == 0, value.bit_length() > 31
    if isinstance(value, tuple):
        return tuple(map(_likeness, value))
    return "float" if isinstance(value, float) else repr(value)


def _described(value: Any) -> Any:
    """The argument without the memory behind it."""
    if _is_descriptor(value):
        return dataclasses.replace(value, base=_described(value.base))
    if isinstance(value, tuple):
        return type(value)(*map(_described, value)) if hasattr(value, "_fields") else tuple(map(_described, value))
    return Pointer(value.dtype, value.data_ptr() % 16) if hasattr(value, "data_ptr") else value


def _is_descriptor(value: Any) -> bool:
    return type(value).__name__ == "TensorDescriptor" and dataclasses.is_dataclass(value)


def _is_constant(kernel: Any, name: str) -> bool:
    """Whether it is a constexpr parameter, or none of the parameters: an option of the compiler."""
    return name not in kernel.arg_names or "constexpr" in str(kernel.fn.__annotations__.get(name, ""))
