"""Errors that are safe to show. Each docstring is the sentence for whoever must act; each door renders them in one place."""

from typing import ClassVar

USAGE = 2        # exit status of `derby` for a wrong request
OUR_FAULT = 3    # exit status of `derby` when the platform failed


class DerbyError(Exception):
    """Something went wrong on our side. Try again; if it stays, run `derby doctor`."""

    status: ClassVar[int] = 500            # HTTP
    exit_status: ClassVar[int] = OUR_FAULT

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)

    @property
    def message(self) -> str:
        """The sentence to show."""
        return str(self)


class RequestError(DerbyError):
    """The request cannot be taken as it is."""

    status = 422
    exit_status = USAGE


class NotFound(RequestError):
    """There is nothing by that name or number."""

    status = 404


class SourceTooLarge(RequestError):
    """The file is larger than 1 MiB. Send the kernel alone, without data."""

    status = 413


class BadSource(RequestError):
    """The file is not a kernel source. Send one UTF-8 text file that ends in .py or .cu."""


class ConflictingDirectives(RequestError):
    """The file's header lines contradict each other or the request. Remove one of them."""


class NotLoggedIn(RequestError):
    """Log in first: send a token as `Authorization: Bearer …`, or open a login link."""

    status = 401


class NotAllowed(RequestError):
    """Your account may not do this."""

    status = 403


class Banned(NotAllowed):
    """Your account is banned."""

    def __init__(self, reason: str, contact: str = "") -> None:
        super().__init__(f"Your account is banned: {reason.rstrip('.')}. If you think that this is wrong, "
                         f"write to {contact or 'the organizers'}, who can lift it.")
        self.reason = reason


class BoardClosed(RequestError):
    """This board takes no submissions now."""

    status = 409


class DeadlinePassed(RequestError):
    """The deadline of this board has passed."""

    status = 410


class QuotaSpent(RequestError):
    """Your quota for this mode is spent for now."""

    status = 429

    def __init__(self, message: str | None = None, *, retry_after_s: int | None = 60) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s      # None: what is spent does not come back


class DuplicateKey(RequestError):
    """This Idempotency-Key was used for a different request. Use a new key for each new request."""

    status = 409


class ProblemBroken(DerbyError):
    """The problem folder cannot be used. Its organizer should run `derby problem check`."""

    exit_status = USAGE
    status = 422


class SandboxUnavailable(DerbyError):
    """No sandbox works on this machine. Run `derby doctor` to see which part is missing."""

    status = 503


class StorageUnavailable(DerbyError):
    """The platform cannot write now: its database is busy or away, or its disk is full. Nothing was taken; try again in a minute."""

    status = 503


class RefereeLost(DerbyError):
    """The referee process ended in the middle of a run."""

    def __init__(self, message: str | None = None, *, box_alive: bool = False) -> None:
        super().__init__(message)
        self.box_alive = box_alive      # whether a contestant's box was lent at that time: it may have had a hand in it


class RunnerUnhealthy(DerbyError):
    """This runner's device is not as it was before a run, so nothing more is judged on it. Restart the machine, then the worker."""

    status = 503


class RunnerBusy(DerbyError):
    """A call that does nothing was not launched in time: this machine is too busy with other work to judge on."""

    status = 503


class BoxStuck(RunnerUnhealthy):
    """A box did not end in time: a process of it hangs in the kernel, perhaps with an endless kernel on the GPU. Nothing more is judged
    here: look for it with `ps` and `nvidia-smi`, restart the machine if it stays, then start the worker again."""

    def __init__(self) -> None:
        super().__init__(" ".join(str(type(self).__doc__).split()))


class SetupError(DerbyError):
    """The platform cannot start here."""
