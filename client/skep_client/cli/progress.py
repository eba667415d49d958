"""Progress bars on standard error, where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

Report = Callable[[int], None]  # bytes, or things, so far


@contextmanager
def bar(what: str, size: int | None) -> Iterator[Report]:
    """Show a progress bar; the value is the function that reports the bytes so far. `size` in
    bytes; None where it is unknown."""
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

    columns = [BarColumn()] if size is not None else []
    with _progress(
        TextColumn("{task.description}", markup=False),
        *columns,
        DownloadColumn(),
        TransferSpeedColumn(),
    ) as progress:
        task = progress.add_task(what, total=size)
        yield lambda so_far: progress.update(task, completed=so_far)


@contextmanager
def count(what: str, number: int) -> Iterator[Report]:
    """Show a progress bar of `number` things; the value reports how many are done so far."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with _progress(TextColumn("{task.description}", markup=False), *columns) as progress:
        task = progress.add_task(what, total=number)
        yield lambda so_far: progress.update(task, completed=so_far)


def _progress(*columns: object) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not console.is_terminal)  # type: ignore[arg-type]
