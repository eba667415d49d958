"""From a manifest of Kubeflow (PyTorchJob, TFJob, MPIJob, TrainJob) to a job file. Notes
report other objects in the same text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from skep_jobfile import document
from skep_jobfile.importers import kubeflow_jobs
from skep_jobfile.importers.kubeflow_draft import Draft
from skep_jobfile.importers.kubeflow_view import View
from skep_jobfile.importers.result import Converted, Note, finished, refused
from skep_jobfile.problems import InvalidJobFile

MAX_OBJECTS = 50
KINDS: dict[str, Callable[[View], Draft]] = {
    "PyTorchJob": kubeflow_jobs.pytorch,
    "TFJob": kubeflow_jobs.tensorflow,
    "MPIJob": kubeflow_jobs.mpi,
    "TrainJob": kubeflow_jobs.train,
}
OF_KUBEFLOW = ("kubeflow.org/", "trainer.kubeflow.org/")


def looks_like_it(text: str) -> bool:
    """Whether a line says `apiVersion: kubeflow.org/…`. Line by line: a pattern with `\\s*` at the
    beginning of lines takes quadratic time for a text of empty lines."""
    return any(_is_group(line) for line in text.split("\n"))


def _is_group(line: str) -> bool:
    key, colon, value = line.strip().partition(":")
    version = value.strip().lstrip("\"'")
    return (
        bool(colon) and key.strip().strip("\"'") == "apiVersion" and version.startswith(OF_KUBEFLOW)
    )


def convert(text: str) -> Converted:
    """Raises InvalidJobFile unless there is exactly one such job in it, with the right shape."""
    notes: list[Note] = []
    jobs: list[View] = []
    for found in _objects(text):
        view = View(found, found.data, (), notes)
        kind, version = str(found.data.get("kind")), str(found.data.get("apiVersion"))
        if kind in KINDS and version.startswith(OF_KUBEFLOW):
            jobs.append(view)
        else:
            view.note("other_object", _OTHER.format(kind=kind[:100]), "kind")
    if len(jobs) != 1:
        raise _not_one(jobs)
    draft = KINDS[str(jobs[0].data["kind"])](jobs[0])
    return finished(draft.job_file(), notes)


_OTHER = "This {kind} was left out: of a manifest the one job is taken."


def _not_one(jobs: list[View]) -> InvalidJobFile:
    if not jobs:
        known = ", ".join(KINDS)
        return refused("no_job", f"There is no job of Kubeflow in it: {known}.")
    message = "There are several jobs in it: convert them one by one."
    return refused("several_jobs", message, jobs[1].line("kind"))


def _objects(text: str) -> Iterator[document.Document]:
    """Each document of the stream, with the lines that it has in the whole text."""
    pieces: list[list[str]] = [[]]
    lines = text.split("\n")
    for line in lines:
        if line == "---" or line.startswith(("--- ", "---\t")):
            pieces.append([line[3:]])
        else:
            pieces[-1].append(line)
    if len(pieces) > MAX_OBJECTS:
        raise refused("too_many_objects", f"At most {MAX_OBJECTS} objects.")
    above = 0
    for piece in pieces:
        if any(line.strip() and not line.lstrip().startswith("#") for line in piece):
            yield document.read("\n".join(piece), lines_above=above)
        above += len(piece)
