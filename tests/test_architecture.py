"""The drawing of imports in ARCHITECTURE.md, held."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("core", "storage", "judge", "leaderboard_web", "cli")
DOOR = {"core", "storage", "judge.intake", "judge.queue", "judge.contest_seeds"}
MAY_IMPORT = {   # the most specific key counts; a value covers all below it
    "core": set(),
    "storage": {"core"},
    "judge": {"core", "storage", "judge"},
    "judge.build": {"core", "judge.box.inline", "judge.box.wire", "judge.build", "judge.referee.findings", "judge.sandbox"},
    "judge.job": {"core"},
    "judge.judging": {"core", "judge.build", "judge.job", "judge.lending", "judge.referees", "judge.sandbox"},
    "judge.lending": {"core", "judge.job", "judge.referees", "judge.sandbox", "judge.box.wire"},
    "judge.referees": {"core", "judge.sandbox", "judge.box.wire"},
    "judge.referee": {"core", "judge.box", "judge.sandbox.freezer"},
    "judge.box": set(),
    "judge.sandbox": {"core", "judge.box"},
    "leaderboard_web": DOOR,
    "cli": DOOR | {"judge.worker", "judge.receipts", "judge.seeds", "judge.gpus", "judge.job", "judge.judging", "judge.problem_check",
                   "judge.sandbox", "judge.acceptance"},
}
HEAVY = {   # where a library may be imported; everywhere else it may not
    "torch": ("judge/referee", "judge/box", "judge/acceptance/gallery", "judge/acceptance/add"),      # the last two: what boxes run
    "triton": ("judge/referee", "judge/box"),
    "sqlalchemy": ("storage", "judge", "leaderboard_web", "cli"),
    "alembic": ("storage",),
    "celery": ("judge",),
    "kombu": ("judge", "cli"),
    "fastapi": ("leaderboard_web",),
    "typer": ("cli",),
}
READS_ENVIRONMENT = ("core/settings.py", "judge/box")


def files() -> list[Path]:
    return sorted(f for part in PARTS for f in (ROOT / part).rglob("*.py"))


def name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("file", files(), ids=name)
def test_imports_point_down(file: Path) -> None:
    module = name(file).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    key = max((k for k in MAY_IMPORT if _below(module, {k})), key=len)

    upward = {i for i in ours(file) if not _below(i, MAY_IMPORT[key] | {key})}

    assert not upward, f"{module} may import {sorted(MAY_IMPORT[key])} only"


@pytest.mark.parametrize("file", files(), ids=name)
def test_heavy_libraries_stay_where_they_belong(file: Path) -> None:
    roots = {i.split(".")[0] for i in imports(file)}

    misplaced = {lib for lib, homes in HEAVY.items() if lib in roots and not name(file).startswith(homes)}

    assert not misplaced


@pytest.mark.parametrize("file", files(), ids=name)
def test_only_settings_read_the_environment(file: Path) -> None:
    if name(file).startswith(READS_ENVIRONMENT):
        return
    read = [n.lineno for n in ast.walk(ast.parse(file.read_text()))
            if isinstance(n, ast.Attribute) and n.attr in ("environ", "getenv", "putenv")]

    assert not read, "take it from core.settings.Settings"


def test_every_package_is_installed() -> None:
    with (ROOT / "pyproject.toml").open("rb") as f:
        listed = set(tomllib.load(f)["tool"]["setuptools"]["packages"])

    found = {"kernelderby." + ".".join(f.parent.relative_to(ROOT).parts) for f in files()}

    assert found <= listed


def ours(file: Path) -> set[str]:
    """Modules of ours that a file imports, without the namespace."""
    return {i.removeprefix("kernelderby.") for i in imports(file) if i.startswith("kernelderby.")}


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if _is_module(node.module, alias.name))


def _is_module(package: str, child: str) -> bool:
    folder = ROOT.joinpath(*package.split(".")[1:]) if package.startswith("kernelderby") else None
    return folder is not None and ((folder / f"{child}.py").is_file() or (folder / child).is_dir())


def _below(module: str, roots: set[str]) -> bool:
    """Whether `module` is one of `roots`, lies below one, or is the mere package above one (`from kernelderby.judge import intake`)."""
    return any(module == r or module.startswith(r + ".") or r.startswith(module + ".") for r in roots)
