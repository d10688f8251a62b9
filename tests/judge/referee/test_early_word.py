"""A done word that stands before a call may begin refuses the entry, however its calls are started: armed or not."""

from types import SimpleNamespace
from typing import Any

import pytest

from kernelderby.core.verdict import Gate, Outcome
from kernelderby.judge.box.pages import ARMED, AWAKE, CALL, FAILED, STATUS, Page
from kernelderby.judge.referee.arena import make_pages
from kernelderby.judge.referee.cuda.clock import CudaRig
from kernelderby.judge.referee.findings import Ended


class _Rig(CudaRig):
    """The clock's own steps on real pages; the GPU is left out."""

    def __init__(self, before_go: dict[int, int]) -> None:
        self._pages, self._last, self._left_s, self._usual_us, self._is_watched = make_pages(), 0, 1.0, 0.0, False
        self._began = self._started = None      # type: ignore[assignment]
        self.played_s, self.has_gone = 0.0, False
        self.arena: Any = SimpleNamespace(reveal_word=0, probe=lambda: None)
        self.box: Any = SimpleNamespace(thaw=self._answer, freeze=lambda: None, look=lambda: None)
        self._before_go = before_go

    def _answer(self) -> None:
        theirs = Page(self._pages.done_fd, writable=True)
        for word, value in ({ARMED: 1, AWAKE: 1} | self._before_go).items():
            theirs.write(word, value)

    def _prepare(self, wanted: int, names: tuple[str, ...]) -> None:
        """Nothing to prepare."""

    def _await_start(self, wanted: int) -> None:
        """Nothing to wait for."""

    def _watched(self, wanted: int) -> int:
        return 0

    def _note_preparation(self) -> None:
        """Nothing was prepared."""


@pytest.mark.parametrize("how", ["_armed", "_unarmed"])
@pytest.mark.parametrize("word", [1, 2, 2**32 - 1])
def test_a_done_word_before_the_call_began_is_refused(how: str, word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelderby.judge.referee.cuda.clock.driver", SimpleNamespace(write_word=lambda *_: None, LEGACY=0))
    rig = _Rig({CALL: word})

    with pytest.raises(Ended) as told:
        getattr(rig, how)(1, ())

    assert (told.value.finding.outcome, told.value.finding.gate) == (Outcome.REFUSED, Gate.HONEST_TIME)
    assert "before the call began" in told.value.finding.message


@pytest.mark.parametrize("how", ["_armed", "_unarmed"])
def test_a_call_that_failed_before_it_began_is_heard(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelderby.judge.referee.cuda.clock.driver", SimpleNamespace(write_word=lambda *_: None, LEGACY=0))

    assert getattr(_Rig({STATUS: FAILED, CALL: 1}), how)(1, ()) >= 0
