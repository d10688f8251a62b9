"""Workers: what `derby doctor` says of them, and one that cannot start."""

from datetime import UTC, datetime
from pathlib import Path

from kernelderby.cli import service_checks
from kernelderby.core.settings import Settings
from kernelderby.storage import runners
from kernelderby.storage.database import connect, migrate
from tests.cli.conftest import Shell


def test_a_worker_without_a_data_folder_is_one_sentence(shell: Shell) -> None:
    done = shell.derby("worker")

    assert (done.returncode, done.stdout) == (3, "")
    assert "There is no folder" in done.stderr and "Traceback" not in done.stderr


def test_a_runner_that_claims_nothing_more_is_named_with_what_to_do(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    database = connect(settings.database)
    migrate(database)
    with database.begin() as session:
        runners.seen(session, "host/h200/1", "h200", {"fault": "Restart the machine."}, datetime.now(UTC))
        runners.seen(session, "host/h200/2", "h200", {"fault": None}, datetime.now(UTC))
    database.close()

    found = [check for check in service_checks.run(settings) if check.part == "runner"]

    assert [(check.works, check.fix) for check in found] == [(False, "Restart the machine.")]
    assert "host/h200/1" in found[0].found
