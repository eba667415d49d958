"""What all models of answers have in common."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")
FINISHED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


class Model(BaseModel):
    """Base of all answers: fields of a newer server are ignored.

    A command reads few of the models, so each is built at its first use."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Page(Model, Generic[T]):
    """`next` and `previous` are addresses of the neighbouring pages."""

    results: list[T]
    next: str | None = None
    previous: str | None = None


class JobModel(Model):
    """Base of what the server answers about a job: its summary, and the whole."""

    state: str = ""

    @property
    def is_finished(self) -> bool:
        """Return whether the job has ended, in whatever way."""
        return self.state in FINISHED
