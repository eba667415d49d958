"""Several calls at the same moment, each on a connection of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

from django.db import connection

from skep_platform.core.errors import SkepError


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """The answer of each call, or the error it raised."""
    start = Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            connection.ensure_connection()
            start.wait(60)
            return call()
        except SkepError as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def codes(answers: list[Any]) -> list[str]:
    return sorted(a.code if isinstance(a, SkepError) else "ok" for a in answers)


@contextmanager
def just_before(words: str, act: Callable[[], Any]) -> Iterator[None]:
    """Act once, before the first statement inside that has these words: what another process does
    in that moment."""
    done: list[str] = []

    def run(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if words in sql and not done:
            done.append(sql)
            act()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(run):
        yield
    assert done, f"no statement has {words}"
