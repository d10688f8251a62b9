"""The gallery of timing attacks is whole, and each defence can still be taken out of the referee to show what it is for."""

import ast
import subprocess
import sys

import pytest

from benchmarks.gpu.gallery import FOLDERS, GALLERY, PLAIN, Attack
from kernelderby.core.settings import ROOT


def test_every_file_is_in_the_gallery_once() -> None:
    files = [path.stem for folder in FOLDERS for path in folder.glob("*.py") if path.stem != "__init__"]

    assert sorted(files) == sorted(attack.name for attack in GALLERY)


@pytest.mark.parametrize("attack", GALLERY, ids=lambda attack: attack.name)
def test_an_attack_and_its_honest_twin_are_entries_and_the_attack_says_how_it_works(attack: Attack) -> None:
    for source in (attack.source, attack.honest):
        assert any(isinstance(node, ast.FunctionDef) and node.name == "custom_kernel" for node in ast.parse(source).body)
    assert ast.get_docstring(ast.parse(attack.source))
    assert attack.honest != attack.source


@pytest.mark.parametrize("defence", sorted({attack.wins_without for attack in GALLERY} - {PLAIN}))
def test_the_defence_is_found_in_the_referee_and_can_be_taken_out(defence: str) -> None:
    program = f"from benchmarks.gpu.weakened_referee import DEFENCES; DEFENCES[{defence!r}]()"

    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr[-1000:]
