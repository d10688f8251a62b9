"""The wire forms of contests."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from kernelderby.core.contest import ContestRules, ModeQuota, Stage
from kernelderby.core.problem import NAME
from kernelderby.core.text import one_line
from kernelderby.core.verdict import Mode
from kernelderby.leaderboard_web.api.wire import BIG, BoardOut
from kernelderby.storage.contests import ContestInfo, ContestProblemInfo
from kernelderby.storage.notices import LONGEST, NoticeInfo

MOST_BOARDS = 60       # of one contest
_YEARS = range(2000, 2200)

ContestName = Annotated[str, Path(max_length=80, description="The contest's name.", examples=["spring"]), AfterValidator(one_line)]
NoticeId = Annotated[int, Path(ge=1, le=BIG, description="The notice's number.", examples=[4])]


def _utc(at: datetime) -> datetime:
    if at.year not in _YEARS:
        raise ValueError(f"a time of a contest lies between the years {_YEARS.start} and {_YEARS.stop - 1}")
    return at.astimezone(UTC)


Time = Annotated[AwareDatetime, AfterValidator(_utc)]
Title = Annotated[str, AfterValidator(one_line)]


class Quota(BaseModel):
    """What one person, or one team, may send in a mode over the whole contest. Null: no limit."""

    model_config = ConfigDict(extra="forbid")
    runs: int | None = Field(None, ge=0, le=1_000_000)
    gpu_seconds: float | None = Field(None, ge=0, le=1e9, allow_inf_nan=False)


class AskedBoard(BaseModel):
    """One board: a problem, by its current version unless said otherwise, on a device class."""

    model_config = ConfigDict(extra="forbid")
    problem: Annotated[str, AfterValidator(one_line)] = Field(max_length=80, examples=["vector_add"])
    device: Annotated[str, AfterValidator(one_line)] = Field("cpu", max_length=40, examples=["cpu"])
    version: Annotated[str, AfterValidator(one_line)] | None = Field(None, max_length=16, description="The hash of a version.")


class ContestIn(BaseModel):
    """A contest to make."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(pattern=f"^{NAME.pattern}$", examples=["spring"])
    title: Title = Field(min_length=1, max_length=200, examples=["Spring cup"])
    starts_at: Time
    ends_at: Time
    freezes_at: Time | None = Field(None, description="From then on contestants see the boards as they were.")
    problems: list[AskedBoard] = Field(min_length=1, max_length=MOST_BOARDS)
    by_team: bool = Field(False, description="Teams compete; quotas and ranks are theirs.")
    by_invitation: bool = Field(False, description="Only who has a code may register.")
    sources: Literal["owner", "public"] = Field("owner", description="Who may read sources after the reveal.")
    quotas: dict[Mode, Quota] = Field(default_factory=dict)
    gpu_seconds: float | None = Field(None, gt=0, le=1e9, allow_inf_nan=False, description="Hard cap of the whole contest.")
    finalists: int = Field(5, ge=2, le=50, description="Of the final heat of each board.")
    final_runs: int = Field(5, ge=1, le=50, description="Of each finalist.")

    def rules(self) -> ContestRules:
        """As the platform keeps them."""
        said = self.model_dump(exclude={"name", "problems", "quotas"})
        return ContestRules(**said, quotas=_quotas(self.quotas))


class ContestChange(BaseModel):
    """What to change; what is left out stays. After the start only `freezes_at` and `ends_at`, later or to now."""

    model_config = ConfigDict(extra="forbid")
    title: Title | None = Field(None, min_length=1, max_length=200)
    starts_at: Time | None = None
    ends_at: Time | None = None
    freezes_at: Time | None = None
    problems: list[AskedBoard] | None = Field(None, min_length=1, max_length=MOST_BOARDS)
    by_team: bool | None = None
    by_invitation: bool | None = None
    sources: Literal["owner", "public"] | None = None
    quotas: dict[Mode, Quota] | None = None
    gpu_seconds: float | None = Field(None, gt=0, le=1e9, allow_inf_nan=False)
    finalists: int | None = Field(None, ge=2, le=50)
    final_runs: int | None = Field(None, ge=1, le=50)

    def onto(self, old: ContestRules) -> ContestRules:
        """The rules with these changes. A null takes away freeze or cap; elsewhere it says nothing."""
        said = self.model_dump(exclude_unset=True, exclude={"problems", "quotas"})
        kept = {name: value for name, value in said.items() if value is not None or name in ("freezes_at", "gpu_seconds")}
        quotas = old.quotas if self.quotas is None else _quotas(self.quotas)
        return replace(old, **kept, quotas=quotas)


class BoardPlace(BaseModel):
    """One board of a contest."""

    problem: str
    title: str
    version: str
    gate_set: str
    device: str
    board_url: str


class ContestOut(BaseModel):
    """A contest. `problems` are those that you may know of: most contests tell them at their start."""

    name: str = Field(examples=["spring"])
    title: str
    stage: Stage
    starts_at: datetime
    freezes_at: datetime | None
    ends_at: datetime
    revealed_at: datetime | None
    by_team: bool
    by_invitation: bool
    sources: str = Field(description="Who may read sources after the reveal: owner or public.")
    quotas: dict[Mode, Quota] = Field(description="Of one person or team over the whole contest; a mode that is not there has no limit.")
    gpu_seconds: float | None = Field(description="Hard cap of the whole contest.")
    finalists: int
    final_runs: int
    registered: int = Field(description="People with a place in it.")
    problems: list[BoardPlace]
    seed_commitment: str | None = Field(description="SHA-256 of a salt and the secret that all seeds come from; null before the start.")
    url: str


class ContestList(BaseModel):
    """Contests, the one that starts last first."""

    contests: list[ContestOut]


class ContestBoard(BoardOut):
    """A ranking in a contest. `frozen_at`: entries sent from then on are not in it until the reveal."""

    contest: str
    stage: Stage
    frozen_at: datetime | None


class SeedsOut(BaseModel):
    """What the seeds of a contest's runs come from. `salt` and `secret` are null before the reveal.

    SHA-256 of salt and secret is the commitment; HMAC-SHA-256 with the secret as key over `SUBMISSION/ATTEMPT` is a run's seed.
    """

    contest: str
    number: int = Field(description="As receipts name the contest.")
    commitment: str = Field(description="Hex.")
    salt: str | None = Field(description="32 bytes in hex.")
    secret: str | None = Field(description="32 bytes in hex.")


class NoticeIn(BaseModel):
    """A question to the organizers, or an announcement of theirs."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field(min_length=1, max_length=LONGEST)
    kind: Literal["question", "announcement"] = "question"


class AnswerIn(BaseModel):
    """An answer, for whoever asked, or with the question for everybody."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field(min_length=1, max_length=LONGEST)
    public: bool = False


class NoticeOut(BaseModel):
    """An announcement, or a question with its answer. `person` is null for others' questions: who asked is not told."""

    id: int
    kind: str
    person: str | None
    text: str
    at: datetime
    answer: str | None
    answered_at: datetime | None
    public: bool


class NoticeList(BaseModel):
    """Newest first."""

    notices: list[NoticeOut]


class PracticeOut(BaseModel):
    """Problems whose practice boards are open now."""

    contest: str
    problems: list[str]


def contest_out(
    info: ContestInfo, places: list[ContestProblemInfo], *, registered: int, commitment: str | None, address: str
) -> ContestOut:
    """A contest as a reader sees it who may know of these boards. `address`: of this site, as settings tell it."""
    rules = info.rules
    return ContestOut(
        name=info.name, title=rules.title, stage=info.stage, starts_at=rules.starts_at, freezes_at=rules.freezes_at, ends_at=rules.ends_at,
        revealed_at=info.revealed_at, by_team=rules.by_team, by_invitation=rules.by_invitation, sources=rules.sources,
        quotas={mode: Quota(runs=q.runs, gpu_seconds=q.gpu_seconds) for mode, q in rules.quotas.items()}, gpu_seconds=rules.gpu_seconds,
        finalists=rules.finalists, final_runs=rules.final_runs, registered=registered, seed_commitment=commitment,
        url=f"{address}/contests/{info.name}",
        problems=[BoardPlace(problem=p.problem, title=p.title, version=p.version, gate_set=p.gate_set, device=p.device,
                           board_url=f"{address}/api/v1/contests/{info.name}/board?problem={p.problem}&device={p.device}") for p in places])


def notice_out(notice: NoticeInfo, *, names_asker: bool) -> NoticeOut:
    """A notice on the wire."""
    person = notice.person if names_asker or notice.kind == "announcement" else None
    return NoticeOut(id=notice.id, kind=notice.kind, person=person, text=notice.text, at=notice.at, answer=notice.answer,
                     answered_at=notice.answered_at, public=notice.public)


def _quotas(said: Mapping[Mode, Quota]) -> dict[Mode, ModeQuota]:
    return {mode: ModeQuota(runs=quota.runs, gpu_seconds=quota.gpu_seconds) for mode, quota in said.items()}


def csv_contact(contact: Mapping[str, Any]) -> dict[str, str]:
    """What a prize needs, as columns."""
    return {column: str(contact.get(key) or "") for column, key in (("real_name", "name"), ("email", "email"), ("country", "country"))}
