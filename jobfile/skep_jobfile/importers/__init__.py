"""Batch scripts of Slurm and manifests of Kubeflow, made into job files.

Whatever is not carried over is told in a note, with its line and what to do instead; nothing is
dropped in silence.
"""

from __future__ import annotations

from typing import Literal

from skep_jobfile.document import MAX_BYTES
from skep_jobfile.importers import kubeflow, slurm
from skep_jobfile.importers.result import Converted, Note, refused

__all__ = ["Converted", "Format", "Note", "convert", "detect"]

Format = Literal["auto", "slurm", "kubeflow"]
CONVERTERS = {"slurm": slurm.convert, "kubeflow": kubeflow.convert}


def convert(text: str, format: Format = "auto") -> Converted:
    """Raises InvalidJobFile for what is not of this format, or cannot become one job."""
    if len(text) > MAX_BYTES:
        raise refused("spec_too_large", f"A job has at most {MAX_BYTES} bytes.")
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise refused("invalid_character", "Has a NUL or half a surrogate pair.")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found = detect(text) if format == "auto" else format
    if found is None:
        message = "Neither a batch script with #SBATCH lines nor a job of Kubeflow."
        raise refused("unknown_format", message)
    return CONVERTERS[found](text)


def detect(text: str) -> Literal["slurm", "kubeflow"] | None:
    """By what only this format has; None for anything else, such as a job file of ours."""
    if slurm.looks_like_it(text):
        return "slurm"
    return "kubeflow" if kubeflow.looks_like_it(text) else None
