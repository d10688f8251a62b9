"""Marks its inputs as persisting in the L2 cache, where a timer's flush may not reach: the next call finds them there.

Seen: llm.c #851, nvbench #458. The kernel waits for memory line by line, so that every line that is found counts.
"""

import torch
import triton
import triton.language as tl
from cuda.bindings import runtime

ATTACK = True
LINES = 512          # of 64 values, one after the other, a program
streams = {}


@triton.jit
def add_by_lines(a, b, c, n, lines, BLOCK: tl.constexpr):    # noqa: N803
    at = tl.program_id(0) * lines * BLOCK + tl.arange(0, BLOCK)
    for _ in range(lines):
        tl.store(c + at, tl.load(a + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)
        at += BLOCK


def work(data):
    n = data.c.numel()
    add_by_lines[(triton.cdiv(n, 64 * LINES),)](data.a, data.b, data.c, n, LINES, BLOCK=64, num_warps=1)


def span(tensors):
    """The memory from the first of them to the end of the last, as far as it may persist."""
    attribute = runtime.cudaDeviceAttr
    _, most = runtime.cudaDeviceGetAttribute(attribute.cudaDevAttrMaxPersistingL2CacheSize, 0)
    _, window = runtime.cudaDeviceGetAttribute(attribute.cudaDevAttrMaxAccessPolicyWindowSize, 0)
    runtime.cudaDeviceSetLimit(runtime.cudaLimit.cudaLimitPersistingL2CacheSize, most)
    first = min(tensor.data_ptr() for tensor in tensors)
    last = max(tensor.data_ptr() + tensor.numel() * tensor.element_size() for tensor in tensors)
    return first, min(last - first, most, window)


def policy(address, size):
    value, window = runtime.cudaStreamAttrValue(), runtime.cudaAccessPolicyWindow()
    window.base_ptr, window.num_bytes, window.hitRatio = address, size, 1.0
    window.hitProp = runtime.cudaAccessProperty.cudaAccessPropertyPersisting
    window.missProp = runtime.cudaAccessProperty.cudaAccessPropertyNormal
    value.accessPolicyWindow = window
    return value


def stream_for(data):
    key = data.a.data_ptr()
    if key not in streams:
        streams[key] = torch.cuda.Stream()
        runtime.cudaStreamSetAttribute(streams[key].cuda_stream, runtime.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow,
                                       policy(*span((data.a, data.b))))
    return streams[key]


def custom_kernel(data):
    if not ATTACK:
        work(data)
        return
    mine, chosen = torch.cuda.current_stream(), stream_for(data)
    chosen.wait_stream(mine)
    with torch.cuda.stream(chosen):
        work(data)
    mine.wait_stream(chosen)
