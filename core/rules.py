"""The rules of admission, each a function that raises when broken. `judge.intake` applies them all, for every door."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kernelderby.core.contest import ContestRules, Stage
from kernelderby.core.devices import device as device_class
from kernelderby.core.errors import BadSource, BoardClosed, ConflictingDirectives, DeadlinePassed, NotFound, QuotaSpent, RequestError
from kernelderby.core.submission import Directives, is_cuda
from kernelderby.core.text import one_line
from kernelderby.core.verdict import Mode

AI_USES = ("none", "assisted", "agent")
HOUR = timedelta(hours=1)
DUELS_A_DAY = 1     # of one person with one entry: a duel takes a GPU as long as several judgings
_LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+()\- ]{1,79}")   # an SPDX expression
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
_TRITON = re.compile(r"^\s*(?:import|from)\s+triton\b", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Quota:
    """What one contestant may send."""

    an_hour: Mapping[Mode, int] = field(default_factory=lambda: {Mode.TEST: 600, Mode.BENCHMARK: 240, Mode.RANKED: 120})
    queued: int = 100             # waiting at one time, over all devices


def choose_problem(asked: str | None, directives: Directives, inferred: list[str]) -> str:
    """The problem's name, from the request or the header. Raises ConflictingDirectives, or RequestError where neither says it."""
    if asked and directives.problem and asked != directives.problem:
        raise ConflictingDirectives(f"The file's header names the problem {directives.problem[:80]!r}, but you chose {asked[:80]!r}. "
                                    "Change one of them.")
    if asked:
        return asked
    if not directives.problem:
        raise RequestError("Which problem is this for? Choose it (--problem on the command line), or write a line "
                           "`#!POPCORN leaderboard NAME` at the top of the file.")
    inferred.append("problem")
    return directives.problem


def choose_device(asked: str | None, directives: Directives, offered: Sequence[str], inferred: list[str]) -> str:
    """The device class: the request's, else the header's, else the problem's only one.

    Raises ConflictingDirectives, NotFound for a class without a board here, RequestError where several are possible.
    """
    if asked:
        name = device_class(asked).name
        if directives.devices and name not in directives.devices:
            raise ConflictingDirectives(f"The file's header names the device {directives.devices[0][:40]!r}, but you chose {name!r}. "
                                        "Change one of them.")
    else:
        name = _implied_device(directives, offered)
        inferred.append("device")
    if name not in offered:
        raise NotFound(f"This problem has no board for {name} on this server. It has: {', '.join(offered) or 'none'}.")
    return name


def check_licence(licence: str, mode: Mode) -> str:
    """The licence granted, tidied. Raises RequestError where a ranked entry grants none, or for what is no SPDX name."""
    granted = one_line(licence, 81)
    if not granted and mode is Mode.RANKED:
        raise RequestError("A ranked entry needs a licence, so that a winner can be merged. Name one you may grant, such as Apache-2.0.")
    if granted and not _LICENCE.fullmatch(granted):
        raise RequestError(f"{granted[:40]!r} is not the name of a licence. Use its SPDX name, such as Apache-2.0 or MIT.")
    return granted


def check_ai_use(ai_use: str) -> str:
    """How AI took part, tidied: a known word, with a remark after a colon if wanted; empty: not said. Raises RequestError."""
    said = one_line(ai_use, 300)
    if said and said.partition(":")[0].strip().lower() not in AI_USES:
        raise RequestError(f"AI use is one of {', '.join(AI_USES)}, with a remark after a colon if you like; "
                           f"{said[:40]!r} is not among them.")
    return said


def check_key(idempotency_key: str | None) -> str | None:
    """The Idempotency-Key. Raises RequestError for one that is not 1 to 200 visible ASCII characters."""
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        raise RequestError("An Idempotency-Key is 1 to 200 visible ASCII characters.")
    return idempotency_key


def choose_contest_problem(asked: str | None, directives: Directives, offered: Sequence[str], contest: str, inferred: list[str]) -> str:
    """The problem's name: the request's, the header's, else the contest's only one. Raises RequestError."""
    if not asked and not directives.problem and len(offered) == 1:
        inferred.append("problem")
        return offered[0]
    name = one_line(choose_problem(asked, directives, inferred), 80)
    if name not in offered:
        raise NotFound(f"The contest {contest!r} has no problem {name!r}. It has: {', '.join(offered) or 'none'}.")
    return name


def check_contest(name: str, contest: ContestRules, stage: Stage) -> None:
    """Raises BoardClosed before a contest's start, DeadlinePassed after its end."""
    if stage is Stage.COMING:
        raise BoardClosed(f"The contest {name!r} has not begun. It opens at {contest.starts_at:%Y-%m-%d %H:%M} UTC; until then you can "
                          f"register: `derby contest register {name}`.")
    if stage in (Stage.ENDED, Stage.REVEALED):
        raise DeadlinePassed(f"The contest {name!r} ended at {contest.ends_at:%Y-%m-%d %H:%M} UTC and takes nothing more. Practice boards "
                             "that are open do: leave the contest out (--contest).")


def check_open(is_open: bool, closes_at: datetime | None, now: datetime) -> None:
    """Raises BoardClosed or DeadlinePassed."""
    if not is_open:
        raise BoardClosed
    if closes_at is not None and now >= closes_at:
        raise DeadlinePassed(f"This board closed at {closes_at:%Y-%m-%d %H:%M} UTC.")


def check_quota(mode: Mode, sent: Sequence[datetime], queued: int, quota: Quota, now: datetime) -> None:
    """Raises QuotaSpent, saying which limit and when to try again. `sent`: times within the last hour, the oldest first."""
    most = quota.an_hour[mode]
    if len(sent) >= most:
        free_at = sent[len(sent) - most] + HOUR if most else now + HOUR
        wait_s = max(1, math.ceil((free_at - now).total_seconds()))
        raise QuotaSpent(f"You sent {len(sent)} {mode} submissions within an hour; {most} may be. The next one may be sent at "
                         f"{free_at:%Y-%m-%d %H:%M:%S} UTC, in {_minutes(wait_s)}.", retry_after_s=wait_s)
    if queued >= quota.queued:
        raise QuotaSpent(f"{queued} of your submissions wait already; {quota.queued} may. Try again when some are judged, or cancel some.")


def check_budget(runs: int | None, runs_spent: int, gpu_seconds: float | None, seconds_spent: float) -> None:
    """Raises QuotaSpent where an agent's budget is used up. A limit of None: there is none."""
    spent = None
    if runs is not None and runs_spent >= runs:
        spent = f"{runs_spent} of {runs} runs"
    elif gpu_seconds is not None and seconds_spent >= gpu_seconds:
        spent = f"{seconds_spent:,.1f} of {gpu_seconds:,.1f} GPU-seconds"
    if spent is not None:
        raise QuotaSpent(f"This agent's budget is spent: {spent}, over the life of its token. Its person can make it a new token with a "
                         "larger one: `derby token new NAME --agent --runs N --gpu-seconds S`.", retry_after_s=None)


def check_duel(entry: int, asked_today: int) -> None:
    """Raises QuotaSpent where a contestant asked for as many duels with that entry within a day as one may."""
    if asked_today >= DUELS_A_DAY:
        raise QuotaSpent(f"You may ask for {DUELS_A_DAY} duel with submission {entry} within a day, and did. Try again tomorrow.")


def check_file_name(name: str) -> str:
    """The file's own name, without folders, tidied. Raises BadSource where nothing is left."""
    tidy = one_line(re.split(r"[/\\]", name)[-1], 240)
    if not tidy:
        raise BadSource("The file has no name. Send one whose name ends in .py or .cu.")
    return tidy if len(tidy) <= 120 else tidy[:112] + "…" + tidy[-7:]   # the suffix stays


def language(file_name: str, text: str) -> str:
    """triton, torch or cuda, for the board."""
    if is_cuda(file_name):
        return "cuda"
    return "triton" if _TRITON.search(text) else "torch"


def _minutes(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{math.ceil(seconds / 60)} minutes"


def _implied_device(directives: Directives, offered: Sequence[str]) -> str:
    if len(directives.devices) > 1:
        raise ConflictingDirectives(f"The header names {len(directives.devices)} devices. Say which one this submission is for.")
    if directives.devices:
        return device_class(directives.devices[0]).name
    if len(offered) != 1:
        raise RequestError(f"Which device is this for? This problem has boards for {', '.join(offered) or 'none'}.")
    return offered[0]
