"""/people/me/tokens: make, list and revoke one's own tokens."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kernelderby.core.text import one_line
from kernelderby.leaderboard_web.api.people import BudgetOut, budget_out
from kernelderby.leaderboard_web.door import LoggedIn, Reader, TheDoor
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import audit, ledger, people
from kernelderby.storage.people import NewToken

router = APIRouter(tags=["people"])
Scope = Literal["submit", "read", "organize"]


class AskedToken(BaseModel):
    """A token to make. A budget goes with an agent's token only."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, AfterValidator(one_line)] = Field(min_length=1, max_length=80, examples=["laptop"])
    scopes: list[Scope] = Field(["submit", "read"], min_length=1, max_length=3)
    agent: bool = Field(False, description="It is an agent's: boards name it beside you, and it makes no tokens.")
    runs: int | None = Field(None, ge=1, le=2**31 - 1, description="Submissions over its life, in every mode.")
    gpu_seconds: float | None = Field(None, gt=0, le=1e9, allow_inf_nan=False, description="Seconds of devices over its life.")


class MadeToken(BaseModel):
    """A new token. Its text is shown this once."""

    name: str
    scopes: list[str]
    token: str


class TokenOut(BaseModel):
    """A token, without its secret."""

    id: int
    name: str
    scopes: list[str]
    agent: bool
    created_at: datetime
    revoked_at: datetime | None
    budget: BudgetOut | None = Field(description="Of an agent's token.")


class TokenList(BaseModel):
    """All tokens you ever had, newest first."""

    tokens: list[TokenOut]


@router.post("/people/me/tokens", status_code=201, responses=responses(401))
def new(door: TheDoor, person: LoggedIn, asked: AskedToken) -> MadeToken:
    """Make a token of yours, with scopes that you hold here. An agent's token makes none."""
    scopes = list(dict.fromkeys(asked.scopes))
    with door.database.begin() as session:
        text = people.own_token(session, person, NewToken(
            name=asked.name, scopes=scopes, agent=asked.agent, runs=asked.runs, gpu_seconds=asked.gpu_seconds))
        audit.note(session, person.id, "token new", name=asked.name, scopes=scopes, agent=asked.agent)
    return MadeToken(name=asked.name, scopes=list(scopes), token=text)


@router.get("/people/me/tokens", responses=responses(401))
def listing(door: TheDoor, person: Reader) -> TokenList:
    """Your tokens, and what agents have spent."""
    with door.database.read() as session:
        return TokenList(tokens=[
            TokenOut(id=t.id, name=t.name, scopes=list(t.scopes), agent=t.agent, created_at=t.created_at, revoked_at=t.revoked_at,
                     budget=budget_out(ledger.budget(session, t.id)) if t.agent else None)
            for t in people.tokens_of(session, person.id)])


@router.delete("/people/me/tokens/{token}", responses=responses(401, 404))
def revoke(door: TheDoor, person: LoggedIn, token: Annotated[str, Path(max_length=80, description="Its number or name.")]) -> TokenOut:
    """End a token of yours, and the logins it opened. What it sent stays."""
    with door.database.begin() as session:
        found = people.revoke_own(session, person, token)
        audit.note(session, person.id, "token revoke", token=found.id)
        t = next(t for t in people.tokens_of(session, person.id) if t.id == found.id)
        budget = budget_out(ledger.budget(session, t.id)) if t.agent else None
    return TokenOut(id=t.id, name=t.name, scopes=list(t.scopes), agent=t.agent, created_at=t.created_at, revoked_at=t.revoked_at,
                    budget=budget)
