"""/people: who you are, and what is left of an agent's budget."""

from fastapi import APIRouter
from pydantic import BaseModel, Field

from kernelderby.leaderboard_web.door import LoggedIn, TheDoor
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import ledger

router = APIRouter(tags=["people"])


class BudgetOut(BaseModel):
    """Over the life of the agent's token. A limit of null: there is none, and so nothing is left to tell."""

    runs: int | None
    runs_spent: int = Field(description="Submissions of every mode, those that wait included; not those that a failure of ours ended.")
    runs_left: int | None
    gpu_seconds: float | None
    gpu_seconds_spent: float = Field(description="Of devices, by finished attempts; on the class cpu those of its box.")
    gpu_seconds_left: float | None


class Me(BaseModel):
    """Who the token or session belongs to. `agent` and `budget` are null unless an agent's token asks."""

    id: int
    name: str
    role: str
    scopes: list[str]
    agent: str | None
    budget: BudgetOut | None


@router.get("/people/me", responses=responses(401))
def me(door: TheDoor, person: LoggedIn) -> Me:
    """Who you are, what your token may do, and what is left of its budget. Every token may ask."""
    budget = None
    if person.token is not None and person.agent is not None:
        with door.database.read() as session:
            budget = budget_out(ledger.budget(session, person.token))
    return Me(id=person.id, name=person.name, role=person.role, scopes=list(person.scopes), agent=person.agent, budget=budget)


def budget_out(budget: ledger.Budget) -> BudgetOut:
    """A budget with what is left."""
    return BudgetOut(
        runs=budget.runs, runs_spent=budget.runs_spent, runs_left=None if budget.runs is None else max(0, budget.runs - budget.runs_spent),
        gpu_seconds=budget.gpu_seconds, gpu_seconds_spent=budget.seconds_spent,
        gpu_seconds_left=None if budget.gpu_seconds is None else max(0.0, round(budget.gpu_seconds - budget.seconds_spent, 3)))
