"""The memory shared with the referee, and the tensors that lie in it."""

import math
import mmap
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What `custom_kernel` is given, and where its results must end up."""

    data: tuple[Any, ...]                # the named tuple: inputs, then outputs, in problem order
    outputs: dict[str, torch.Tensor]


class Arena:
    """The referee's memory, mapped shared. Tensors made from it keep it mapped."""

    def __init__(self, fd: int, size_bytes: int) -> None:
        self._map = mmap.mmap(fd, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)

    def tensor(self, shape: Sequence[int], dtype_name: str, offset: int) -> torch.Tensor:
        """A contiguous tensor over the bytes from `offset`; an empty one lies nowhere."""
        dtype = getattr(torch, dtype_name)
        count = math.prod(shape)
        if count == 0:
            return self._nowhere(shape, dtype)
        return self._region(dtype, count, offset).view(tuple(shape))

    def bind(self, inputs: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Any]]) -> Bound:
        """The named tuple of the wire's `bind`: tensors have shape, dtype and offset, numbers have a value."""
        given = {spec["name"]: self._input(spec) for spec in inputs}
        made = {spec["name"]: self.tensor(spec["shape"], spec["dtype"], spec["offset"]) for spec in outputs}
        data = namedtuple("data", [*given, *made])    # type: ignore[misc]
        return Bound(data=data(*given.values(), *made.values()), outputs=made)

    def _region(self, dtype: torch.dtype, count: int, offset: int) -> torch.Tensor:
        return torch.frombuffer(self._map, dtype=dtype, count=count, offset=offset)

    def _nowhere(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=dtype)

    def _input(self, spec: Mapping[str, Any]) -> Any:
        return spec["value"] if "value" in spec else self.tensor(spec["shape"], spec["dtype"], spec["offset"])
