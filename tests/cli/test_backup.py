"""`derby backup` on a platform that runs, and back into an empty folder."""

import json
from pathlib import Path

from tests.cli.conftest import ROOT, Shell

GOOD = ROOT / "problems/warmup/vector_add/submissions/accepted/torch.py"


def test_a_platform_that_runs_is_saved_and_stands_again_elsewhere(platform: Shell, tmp_path: Path) -> None:
    sent = json.loads(platform.derby("submit", str(GOOD), "--problem", "vector_add", "--json").stdout)
    file = tmp_path / "today"

    made = platform.derby("backup", str(file))
    told = json.loads(platform.derby("backup", "verify", str(file), "--json").stdout)

    assert (made.returncode, file.stat().st_mode & 0o777) == (0, 0o600), made.stderr
    assert "0600" in made.stdout and "2 secrets" in made.stdout
    assert told["tables"]["submissions"] >= 1 and told["secrets"] == ["secret", "signing_key"]
    elsewhere = Shell(tmp_path / "elsewhere")
    elsewhere.folder.mkdir()
    restored = elsewhere.derby("backup", "restore", str(file))
    assert restored.returncode == 0, restored.stderr
    for name in ("secret", "signing_key"):
        kept = elsewhere.folder / ".derby" / name
        assert (kept.read_text(), kept.stat().st_mode & 0o777) == ((platform.folder / ".derby" / name).read_text(), 0o600)
    process = elsewhere.up()
    shown = elsewhere.derby("show", str(sent["submission"]), "--json")
    receipt = elsewhere.derby("receipt", "verify", str(sent["submission"]))
    process.terminate()
    process.communicate(timeout=60)
    assert json.loads(shown.stdout)["outcome"] == "accepted", shown.stderr
    assert receipt.returncode == 0, receipt.stdout


def test_nothing_is_restored_into_a_platform(platform: Shell, tmp_path: Path) -> None:
    file = tmp_path / "today"
    platform.derby("backup", str(file))

    running = platform.derby("backup", "restore", str(file))
    other = Shell(tmp_path, {"DERBY_SECRET": "another"}).derby("backup", "restore", str(file))

    assert running.returncode == 3 and "Stop it" in running.stderr
    assert other.returncode == 2 and "DERBY_SECRET" in other.stderr
    assert not (tmp_path / ".derby").exists()


def test_what_is_no_backup_or_no_platform_is_a_sentence(shell: Shell) -> None:
    (shell.folder / "file").write_text("no zip")

    for words in (("restore", "file"), ("verify", "file"), ("verify", "nowhere"), ("here",), ("restore",)):
        done = shell.derby("backup", *words)
        assert done.returncode == 2 and "Traceback" not in done.stderr, words
    assert sorted(p.name for p in shell.folder.iterdir()) == ["file"]
