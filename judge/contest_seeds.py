"""What a contest's seeds come from: committed to from its start on, shown once it is revealed."""

from dataclasses import dataclass, field

from kernelderby.core import receipt
from kernelderby.core.settings import Settings
from kernelderby.judge.receipts import SigningKey, load_key
from kernelderby.judge.seeds import contest_secret, run_seed, secret_of


@dataclass(frozen=True, kw_only=True)
class ContestSeeds:
    """A contest's secret. What may be shown of it before the reveal: `commitment`."""

    salt: bytes = field(repr=False)
    secret: bytes = field(repr=False)     # run_seed(secret, submission, attempt) is a run's seed

    @property
    def commitment(self) -> str:
        """SHA-256 of salt and secret, in hex."""
        return receipt.commitment(self.salt, self.secret)


def seeds_of(settings: Settings, contest: int) -> ContestSeeds:
    """The seeds of a contest by number. Raises SetupError."""
    return made(load_key(settings), secret_of(settings), contest)


def reveal(settings: Settings, contest: int, submission: int, attempt: int) -> dict[str, str]:
    """What is added to a receipt of a revealed contest, in hex: the run's salt and seed, and the contest's salt and secret."""
    key, seeds = load_key(settings), seeds_of(settings, contest)
    return {"salt": key.salt(submission, attempt).hex(), "seed": run_seed(seeds.secret, submission, attempt).hex(),
            "contest_salt": seeds.salt.hex(), "contest_secret": seeds.secret.hex()}


def made(key: SigningKey, secret: bytes, contest: int) -> ContestSeeds:
    """The seeds of a contest, from the platform's key and secret."""
    return ContestSeeds(salt=key.contest_salt(contest), secret=contest_secret(secret, contest))
