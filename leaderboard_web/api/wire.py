"""The API's own wire forms, beside `Verdict`."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kernelderby.core.problem import ProblemFile
from kernelderby.core.submission import SubmitRequest
from kernelderby.core.text import one_line
from kernelderby.core.verdict import Gate, Mode, Outcome, State, Verdict
from kernelderby.storage.people import PersonInfo
from kernelderby.storage.quotas import Left
from kernelderby.storage.submissions import SubmissionView

BIG = 2**63 - 1                     # the largest id a database holds
SubmissionId = Annotated[int, Path(ge=1, le=BIG, description="The submission's number.", examples=[12])]
ProblemName = Annotated[str, Path(max_length=80, description="The problem's name.", examples=["vector_add"]), AfterValidator(one_line)]
ProblemFilter = Annotated[Annotated[str, AfterValidator(one_line)] | None,
                          Query(max_length=80, description="Only this problem's.", examples=["vector_add"])]
DeviceName = Annotated[str, Query(max_length=40, description="A device class, see /devices.", examples=["cpu"]), AfterValidator(one_line)]


class LeftOut(BaseModel):
    """What may still be sent in this mode. A limit of null: there is none."""

    runs: int | None
    gpu_seconds: float | None = Field(description="Seconds of devices, without what is kept for runs that wait.")


class TicketOut(BaseModel):
    """A submission that was taken and stored."""

    submission: int = Field(examples=[12])
    url: str = Field(description="The page that shows it, for good.", examples=["http://127.0.0.1:8000/submissions/12"])
    problem: str = Field(examples=["vector_add"])
    device: str = Field(examples=["cpu"])
    mode: Mode
    state: State
    position: int | None = Field(description="Its place in the queue of its device class; 1 is next.")
    inferred: list[str] = Field(description="What was not said and was taken from the file's header or from the problem.")
    left: LeftOut | None = Field(description="After this one: of the contest's quota, which does not come back, or of the practice boards' "
                                             "quota by the hour. Null: there is no limit.")


class SubmissionOut(Verdict):
    """A verdict and who sent what when. `outcome` is null until `state` is `done`. `log` is for the owner and the organizers."""

    model_config = ConfigDict(title="Submission")
    person: str
    agent: str | None = Field(description="The agent of that person who sent it; null: the person did.")
    contest: str | None = Field(description="The contest it was sent to; null: practice.")
    created_at: datetime
    file_name: str
    position: int | None = Field(description="Its place in the queue while it waits.")
    events_url: str
    judged_again: str | None = Field(None, description="Why it was judged again after an earlier verdict; null: it was not.")


class SubmissionLine(BaseModel):
    """A submission in a list."""

    submission: int
    person: str
    agent: str | None
    contest: str | None
    problem: str
    device: str
    mode: Mode
    state: State
    outcome: Outcome | None
    gate: Gate | None
    score_us: float | None
    rank: tuple[int, int] | None
    file_name: str
    created_at: datetime
    url: str


class SubmissionList(BaseModel):
    """Newest first. `next` is the `before` of the next page, or null at the end."""

    submissions: list[SubmissionLine]
    next: int | None


class SubmitJson(BaseModel):
    """A submission as JSON; the same fields as the form's, with the file's text in `source`."""

    model_config = ConfigDict(extra="forbid")
    file_name: str = Field(min_length=1, max_length=1000, examples=["submission.py"])
    source: str = Field(examples=["import torch\n\ndef custom_kernel(data):\n    torch.add(data.a, data.b, out=data.c)\n"])
    problem: Annotated[str, AfterValidator(one_line)] | None = Field(None, max_length=80, examples=["vector_add"])
    device: Annotated[str, AfterValidator(one_line)] | None = Field(None, max_length=40, examples=["cpu"])
    contest: Annotated[str, AfterValidator(one_line)] | None = Field(None, max_length=80, description="Its name; else it is practice.")
    mode: Mode = Mode.TEST
    licence: Annotated[str, AfterValidator(one_line)] = Field(
        "", max_length=80, description="An SPDX name you grant. Ranked entries need one.", examples=["Apache-2.0"])
    ai_use: Annotated[str, AfterValidator(one_line)] = Field(
        "", max_length=300, description="none, assisted or agent; a colon and free text may follow.", examples=["none"])


class EventOut(BaseModel):
    """A step of a submission's life."""

    seq: int
    at: datetime
    kind: str = Field(description="state, build, check, time, log or verdict")
    data: dict[str, Any]


class EventList(BaseModel):
    """Events in order; ask again with `after` = the last `seq`."""

    events: list[EventOut]


class ProblemLine(BaseModel):
    """A problem in a list."""

    name: str
    title: str
    family: str
    version: str
    gate_set: str
    devices: list[str]
    open: bool
    closes_at: datetime | None
    url: str


class ProblemList(BaseModel):
    """The problems in the organizers' order."""

    problems: list[ProblemLine]


class ProblemOut(ProblemLine):
    """A problem, its statement and its public parts. Hidden families are named by their number only."""

    statement: str = Field(description="Markdown")
    starters: dict[str, str] = Field(description="Starter files by name")
    spec: ProblemFile = Field(description="problem.yml, without its hidden families")


class BoardRow(BaseModel):
    """The best entry of one person, agent or team."""

    rank: tuple[int, int] = Field(description="First and last place the clock leaves open.")
    submission: int
    person: str
    agent: str | None = Field(description="The agent of that person whose entry it is; null: the person's own.")
    team: str | None = Field(description="The team whose row it is, in a contest by teams.")
    score_us: float
    score_ci_us: tuple[float, float]
    speedup: float | None
    language: str = Field(description="triton, torch or cuda")
    at: datetime


class BoardOut(BaseModel):
    """A ranking. Rows are in order of score; rows whose rank intervals agree are tied."""

    problem: str
    version: str
    gate_set: str
    device: str
    open: bool
    closes_at: datetime | None
    people: int = Field(description="Who sent anything to this board, in any mode.")
    submissions: int
    leader: int | None = Field(description="The submission that holds the crown; on a GPU it changes by a duel alone, see /duels.")
    rows: list[BoardRow]


class DeviceOut(BaseModel):
    """A kind of runner; two runners of one class rank on one board."""

    name: str = Field(examples=["cpu"])
    title: str
    kind: str = Field(description="cpu or gpu: the key of a problem's cases")
    arch: str | None
    environment: dict[str, str] | None = Field(description="Versions of what a kernel finds there; null while nobody judges for it.")


class DeviceList(BaseModel):
    """All device classes."""

    devices: list[DeviceOut]


class KeyOut(BaseModel):
    """A public key that receipts are checked with."""

    key_id: str
    public: str = Field(description="Ed25519: 32 bytes in base64url.")
    since: datetime


class KeyList(BaseModel):
    """Public keys, the first one first."""

    keys: list[KeyOut]


def verdict_of(view: SubmissionView, *, private: bool) -> Verdict:
    """The verdict as this reader may see it; before the end one without an outcome. The log is private."""
    verdict = view.as_verdict()
    return verdict if private else verdict.model_copy(update={"log": None})


def submission_out(view: SubmissionView, *, private: bool) -> SubmissionOut:
    """`GET /submissions/{id}`."""
    return SubmissionOut(**verdict_of(view, private=private).model_dump(), person=view.person, agent=view.agent,
                         contest=view.contest, created_at=view.created_at, file_name=view.file_name, position=view.position,
                         events_url=f"/api/v1/submissions/{view.id}/events")


def left_out(left: Left | None) -> LeftOut | None:
    """What may still be sent."""
    return LeftOut(runs=left.runs, gpu_seconds=left.gpu_seconds) if left else None


def request_of(form: SubmitJson, source: bytes, person: PersonInfo, *, key: str | None, door: str) -> SubmitRequest:
    """What intake takes."""
    return SubmitRequest(person_id=person.id, token_id=person.token, file_name=form.file_name, source=source, problem=form.problem,
                         device=form.device, contest=form.contest, mode=form.mode, licence=form.licence, ai_use=form.ai_use,
                         idempotency_key=key, door=door)
