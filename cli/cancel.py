"""`derby cancel`."""

from kernelderby.cli.options import AsJson, Number
from kernelderby.cli.output import print_json
from kernelderby.cli.server import Server
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import Outcome, State


def cancel(submission: Number, as_json: AsJson = False) -> None:
    """Stop a submission of yours."""
    data = Server(Settings.from_env()).post(f"submissions/{submission}/cancel", "state")
    if as_json:
        print_json(data)
    elif data["state"] != State.DONE:
        print(f"Submission {submission} runs; it is stopped within a few seconds. See: derby show {submission}")
    elif data["outcome"] == Outcome.CANCELLED:
        print(f"Submission {submission} is cancelled.")
    else:
        print(f"Submission {submission} was judged before; its verdict stands. See: derby show {submission}")
