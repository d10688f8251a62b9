"""What `custom_kernel` returned, copied into the outputs it was given."""

from collections.abc import Mapping
from typing import Any

import torch

from kernelderby.judge.box.fault import Fault, Kind


def fill(outputs: Mapping[str, torch.Tensor], returned: Any) -> None:
    """Copy returned tensors into `outputs`, in order; a dict goes by name; None means they are filled already. Raises Fault."""
    if returned is None:
        return
    with torch.no_grad():
        for name, value in _named(outputs, returned).items():
            if value is outputs[name]:
                continue
            _check(name, outputs[name], value)
            outputs[name].copy_(value)


def _named(outputs: Mapping[str, torch.Tensor], returned: Any) -> dict[str, Any]:
    if isinstance(returned, dict):
        if set(returned) != set(outputs):
            raise Fault(Kind.SHAPE, f"custom_kernel returned a dict with the keys {_listed(returned)}; they must be {_listed(outputs)}.")
        return returned
    values = list(returned) if isinstance(returned, tuple | list) else [returned]
    if len(values) != len(outputs):
        raise Fault(Kind.SHAPE, f"custom_kernel returned {_counted(len(values))}; it must return {len(outputs)} "
                                f"({_listed(outputs)}, in this order), or fill them in place and return None.")
    return dict(zip(outputs, values, strict=True))


def _check(name: str, output: torch.Tensor, value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        raise Fault(Kind.DTYPE, f"For {name} custom_kernel returned {_a(type(value))}; return a torch.Tensor, "
                                f"or fill data.{name} and return None.")
    if type(value) is not torch.Tensor:
        raise Fault(Kind.DTYPE, f"For {name} custom_kernel returned {_a(type(value))}, a subclass; return a plain torch.Tensor "
                                f"(value.as_subclass(torch.Tensor)), or fill data.{name}.")
    if tuple(value.shape) != tuple(output.shape):
        raise Fault(Kind.SHAPE, f"{name} has the shape {tuple(output.shape)}, but custom_kernel returned {tuple(value.shape)}.")
    if value.dtype != output.dtype:
        raise Fault(Kind.DTYPE, f"{name} is {output.dtype}, but custom_kernel returned {value.dtype}: convert it with .to({output.dtype}).")
    if value.device != output.device:
        raise Fault(Kind.DTYPE, f"{name} lies on {output.device}, but custom_kernel returned a tensor on {value.device}: "
                                f"make it on data.{name}.device.")
    if value.layout != torch.strided:
        raise Fault(Kind.DTYPE, f"{name} is dense, but custom_kernel returned {value.layout}: convert it with .to_dense().")


def _listed(names: Mapping[Any, Any]) -> str:
    return ", ".join(str(name)[:60] for name in list(names)[:12]) or "(none)"


def _counted(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"


def _a(kind: type) -> str:
    return f"a {kind.__module__}.{kind.__qualname__}".replace("a builtins.", "a ")[:200]
