"""What all models of answers have in common."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")
FINISHED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


class Model(BaseModel):
    """Fields of a newer server are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Page(Model, Generic[T]):
    """`next` and `previous` are addresses of the neighbouring pages."""

    results: list[T]
    next: str | None = None
    previous: str | None = None


class MayFinish:
    """Of a job, its whole and its summary."""

    state: str

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED
