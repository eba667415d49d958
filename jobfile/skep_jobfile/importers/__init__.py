"""Batch scripts of Slurm and manifests of Kubeflow, made into job files.

A note reports whatever is not carried over, with its line and what to do instead; nothing is
dropped silently.
"""

from __future__ import annotations

from typing import Literal

from skep_jobfile.document import MAX_BYTES
from skep_jobfile.importers import kubeflow, slurm
from skep_jobfile.importers.result import Converted, Note, refused
from skep_jobfile.importers.slurm import Array
from skep_jobfile.importers.slurm_request import SINGLETON

__all__ = [
    "SINGLETON",
    "Array",
    "Converted",
    "Format",
    "Note",
    "array_over_nodes",
    "convert",
    "detect",
]

Format = Literal["auto", "slurm", "kubeflow"]


def convert(text: str, format: Format = "auto", array_index: int | None = None) -> Converted:
    """Return the job file of a batch script or manifest; `array_index` chooses the job of an array
    whose jobs span several nodes. Raises InvalidJobFile for what is not of this format, or cannot
    become one job."""
    text = _checked(text)
    found = detect(text) if format == "auto" else format
    if found is None:
        message = "Neither a batch script with #SBATCH lines nor a job of Kubeflow."
        raise refused("unknown_format", message)
    return slurm.convert(text, array_index) if found == "slurm" else kubeflow.convert(text)


def array_over_nodes(text: str) -> Array | None:
    """Return the array of a batch script whose jobs span several nodes each; None for any other
    text. Raises InvalidJobFile."""
    text = _checked(text)
    return slurm.array_over_nodes(text) if detect(text) == "slurm" else None


def _checked(text: str) -> str:
    if len(text) > MAX_BYTES:
        raise refused("spec_too_large", f"A job has at most {MAX_BYTES} bytes.")
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise refused("invalid_character", "Has a NUL or half a surrogate pair.")
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def detect(text: str) -> Literal["slurm", "kubeflow"] | None:
    """By what only this format has; None for anything else, such as a job file of ours."""
    if slurm.looks_like_it(text):
        return "slurm"
    return "kubeflow" if kubeflow.looks_like_it(text) else None
