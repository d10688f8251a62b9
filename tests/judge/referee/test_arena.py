"""What the shared memory gives away, and what it notices."""

import fcntl
import mmap
import os

import pytest
import torch

from kernelderby.judge.box.pages import CALL, Page
from kernelderby.judge.box.wire import sealed_file
from kernelderby.judge.referee.arena import ALIGN, GUARD, Arena, lay_out, make_pages

LAYOUT = lay_out([("x", (3, 5), "float32"), ("i", (), "int64")], [("y", (100,), "float16"), ("z", (7,), "bool")])
DATA = {"x": torch.arange(15.0).reshape(3, 5), "i": torch.tensor(4)}


@pytest.fixture
def arena() -> Arena:
    arena = Arena(LAYOUT.extent)
    arena.use(LAYOUT)
    arena.write(DATA, ["x", "i"])
    return arena


def theirs(arena: Arena) -> mmap.mmap:
    """The arena as the box maps it."""
    return mmap.mmap(arena.fd, arena.bytes)


def fill(arena: Arena, value: int = 1) -> None:
    memory = theirs(arena)
    for region in LAYOUT.outputs:
        memory[region.offset : region.end] = bytes([value]) * region.bytes


def test_regions_are_aligned_and_apart() -> None:
    ends = [0, *(r.end for r in (*LAYOUT.inputs, *LAYOUT.outputs))]
    starts = [*(r.offset for r in (*LAYOUT.inputs, *LAYOUT.outputs)), LAYOUT.extent]

    assert all(start % ALIGN == 0 for start in starts)
    assert all(start - end >= GUARD for end, start in zip(ends, starts, strict=True))


def test_untouched_outputs_are_unwritten(arena: Arena) -> None:
    arena.probe()
    arena.snapshot()

    assert arena.unwritten() == arena.words() == 100 * 2 // 8
    assert arena.guards_hold()


def test_written_outputs_come_back(arena: Arena) -> None:
    fill(arena)
    arena.probe()
    arena.snapshot()

    assert arena.unwritten() == 0
    assert arena.guards_hold()
    assert not arena.changed_since_probe()
    assert arena.outputs()["z"].tolist() == [True] * 7
    assert arena.outputs()["y"].shape == (100,)


def test_a_part_left_out_is_counted(arena: Arena) -> None:
    fill(arena)
    arena.poison()
    memory, y = theirs(arena), LAYOUT.outputs[0]
    memory[y.offset : y.offset + 160] = bytes(160)
    arena.snapshot()

    assert arena.unwritten() == (200 - 160) // 8


@pytest.mark.parametrize("place", [0, LAYOUT.inputs[0].end, LAYOUT.inputs[1].offset - 1, LAYOUT.inputs[1].end, LAYOUT.outputs[0].offset - 1,
                                   LAYOUT.outputs[0].end, LAYOUT.outputs[1].end, LAYOUT.extent - 1])
def test_one_byte_written_beside_a_tensor_is_seen(arena: Arena, place: int) -> None:
    fill(arena)
    memory = theirs(arena)
    memory[place] = memory[place] ^ 1
    arena.snapshot()

    assert not arena.guards_hold()


def test_a_changed_input_is_named(arena: Arena) -> None:
    assert arena.changed_input(DATA, ["x", "i"]) is None
    memory, i = theirs(arena), LAYOUT.inputs[1]
    memory[i.offset] = 9

    assert arena.changed_input(DATA, ["x", "i"]) == "i"
    assert arena.changed_input(DATA, ["x"]) is None


def test_work_after_the_done_word_is_seen(arena: Arena) -> None:
    arena.probe()
    fill(arena)
    arena.snapshot()

    assert arena.changed_since_probe()


def test_poison_is_fresh_every_time(arena: Arena) -> None:
    memory = theirs(arena)
    before = memory[LAYOUT.outputs[0].offset : LAYOUT.outputs[0].end]
    arena.poison()

    assert memory[LAYOUT.outputs[0].offset : LAYOUT.outputs[0].end] != before


@pytest.mark.parametrize("size", [0, 2**20])
def test_the_arena_keeps_its_size(arena: Arena, size: int) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(arena.fd, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(arena.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


def test_nobody_else_writes_the_go_page() -> None:
    pages = make_pages()
    theirs = Page(pages.go_fd, writable=False)
    pages.go.write(CALL, 7)

    assert theirs.read(CALL) == 7
    with pytest.raises(PermissionError):
        Page(pages.go_fd, writable=True)
    with pytest.raises(PermissionError):
        os.pwrite(pages.go_fd, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(pages.go_fd, 0)


def test_the_box_writes_the_done_page_and_cannot_shrink_it() -> None:
    pages = make_pages()
    Page(pages.done_fd, writable=True).write(CALL, 3)

    assert pages.done.read(CALL) == 3
    with pytest.raises(PermissionError):
        os.ftruncate(pages.done_fd, 0)


def test_a_sealed_file_cannot_be_changed() -> None:
    fd = sealed_file(b"kernel")

    assert os.read(fd, 100) == b"kernel"
    with pytest.raises(PermissionError):
        os.pwrite(fd, b"x", 0)
