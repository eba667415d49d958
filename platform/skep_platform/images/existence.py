"""Whether the image of a job exists: asked at the submit, with the credentials that the job will
pull with, so that a typing error is found before the job has waited for its place.

A convenience and no authorization, which is the node's (see docs/images.md): what does not answer
in time is accepted. A yes holds for `FOUND_S` and costs nothing then, neither a request nor a
statement, so a thousand submits of one image ask once in each process. A registry that did
not answer is left alone for `SILENT_S`, for whoever asks; one that only answers nothing of use
about an image is not, as that may be due to what one user asked for.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings

from skep_agent.registry_policy import registry_of
from skep_platform.cluster.models import Node, NodeState
from skep_platform.core.serving import give_connection_back
from skep_platform.images import credentials, registry
from skep_platform.images.registry import Login, RegistryError

FOUND_S = 300.0
REFUSED_S = 5.0  # so long the same refusal is given again without a request
SILENT_S = 60.0
ANSWER_S = 3.0  # all images of a job together
MOST_IMAGES = 20  # of one job that are asked about
MOST_REMEMBERED = 10_000
WORKERS = 8
OFF, WARN, ON = "off", "warn", "on"
FOUND, UNKNOWN = "found", "unknown"


@dataclass(frozen=True, slots=True)
class Wanted:
    """An image as a job file names it, with the credentials that the file has for it."""

    uri: str
    username: str = ""
    password: str = field(default="", repr=False)
    registry: str = ""


@dataclass(frozen=True, slots=True)
class ImageAnswer:
    """`kind` is "found", "unknown", or that of a RegistryError that says no."""

    kind: str
    reference: str = ""
    message: str = ""


def look(
    owner_id: int,
    vc_id: UUID,
    wanted: Sequence[Wanted],
    references: Callable[[], Mapping[str, str]],
) -> dict[str, ImageAnswer]:
    """Return what is not known to be there, by uri. `references` has the reference to pull, by uri;
    it is called for images that were not found lately, and credentials are read for those of
    them whose registry may answer."""
    if settings.SKEP_CHECK_IMAGES == OFF:
        return {}
    keys = {one: (owner_id, vc_id, one.uri, _hidden(one)) for one in wanted[:MOST_IMAGES]}
    unknown = [one for one, key in keys.items() if not _recent.get(key)]
    if not unknown:
        return {}
    by_uri = references()
    about = {one: by_uri.get(one.uri, one.uri) for one in unknown}
    verdicts = {one: said for one, of in about.items() if (said := _silence(of))}
    if asked := {one: of for one, of in about.items() if one not in verdicts}:
        logins = credentials.read({owner_id}, {vc_id})
        verdicts |= _ask(
            {one: (of, _login(one, of, logins, owner_id, vc_id)) for one, of in asked.items()}
        )
    for one, verdict in verdicts.items():
        if verdict.kind == FOUND:
            _recent.put(keys[one], verdict, FOUND_S)
    found = {one.uri: verdict for one, verdict in verdicts.items() if verdict.kind != FOUND}
    if any(verdict.kind != UNKNOWN for verdict in found.values()) and _only_simulated():
        return {}
    return found


def forget() -> None:
    """Forget all answers."""
    _recent.clear()
    _answers.clear()
    _silent.clear()


def _ask(asked: Mapping[Wanted, tuple[str, Login]]) -> dict[Wanted, ImageAnswer]:
    give_connection_back()  # who waits for a registry needs none
    deadline = time.monotonic() + ANSWER_S
    running = {one: _question(*about, deadline) for one, about in asked.items()}
    wait(running.values(), timeout=ANSWER_S)
    return {one: _said(asked[one][0], future) for one, future in running.items()}


def _said(reference: str, question: Future[ImageAnswer]) -> ImageAnswer:
    if question.done():
        return question.result()
    host = registry_of(reference)
    return _no_word(reference, f"{host} did not answer in {ANSWER_S:g} s")


def _login(
    one: Wanted, reference: str, logins: credentials.StoredLogins, owner_id: int, vc_id: UUID
) -> Login:
    """Return the login of the job file where it is one of this registry, else the stored one."""
    if one.username and one.registry in ("", registry_of(reference)):
        return Login(one.username, one.password)
    return Login(**logins.login(owner_id, vc_id, reference))


def _silence(reference: str) -> ImageAnswer | None:
    """Return what is said of an image whose registry did not answer a moment ago."""
    host = registry_of(reference)
    if not _silent.get(host):
        return None
    return _no_word(reference, f"{host} did not answer a moment ago")


def _question(reference: str, login: Login, deadline: float) -> Future[ImageAnswer]:
    """Return the answer about an image, one for all who ask at the same time."""
    key = reference, _secret(login.username, login.password)
    with _lock:
        known = _answers.get(key) or _silence(reference)
        if known is not None:
            done: Future[ImageAnswer] = Future()
            done.set_result(known)
            return done
        if key not in _questions:
            _questions[key] = _pool.submit(_answer, key, reference, login, deadline)
        return _questions[key]


def _answer(key: tuple[str, str], reference: str, login: Login, deadline: float) -> ImageAnswer:
    left_s = deadline - time.monotonic()
    try:
        if left_s <= 0:  # it waited behind others, whose registries are slow
            return _no_word(reference, f"{registry_of(reference)} was not asked in time")
        registry.exists(reference, login, deadline)
        verdict, lasts_s = ImageAnswer(FOUND, reference), FOUND_S
    except RegistryError as error:
        if error.kind in ("missing", "denied"):
            verdict, lasts_s = ImageAnswer(error.kind, reference, str(error)), REFUSED_S
        else:
            verdict, lasts_s = _no_word(reference, str(error).removesuffix(".")), REFUSED_S
            if error.away and left_s > ANSWER_S / 2:  # else it had hardly time to answer
                _silent.put(registry_of(reference), verdict, SILENT_S)
    finally:
        with _lock:
            _questions.pop(key, None)
    _answers.put(key, verdict, lasts_s)
    return verdict


def _no_word(reference: str, why: str) -> ImageAnswer:
    message = f"Could not check whether the image {reference} exists: {why}. Its node will try."
    return ImageAnswer(UNKNOWN, reference, message)


def _only_simulated() -> bool:
    """Return whether there are nodes, and none of them pulls images."""
    nodes = Node.objects.exclude(state=NodeState.REMOVED)
    return nodes.filter(runtime="mock").exists() and not nodes.filter(runtime="docker").exists()


def _hidden(one: Wanted) -> str:
    return _secret(one.username, one.password, one.registry) if one.username else ""


def _secret(*words: str) -> str:
    """Return what stands for credentials in a key of this process alone."""
    return hashlib.sha256(_SALT + "\0".join(words).encode()).hexdigest()


class _Memory:
    """Verdicts that hold for a time, of which the oldest go first. Safe for threads."""

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, tuple[float, ImageAnswer]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> ImageAnswer | None:
        with self._lock:
            until, verdict = self._held.get(key, (0.0, None))
            return verdict if time.monotonic() < until else None

    def put(self, key: Hashable, verdict: ImageAnswer, lasts_s: float) -> None:
        with self._lock:
            self._held[key] = time.monotonic() + lasts_s, verdict
            self._held.move_to_end(key)
            while len(self._held) > MOST_REMEMBERED:
                self._held.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._held.clear()


_SALT = os.urandom(16)
_recent, _answers, _silent = _Memory(), _Memory(), _Memory()
_questions: dict[tuple[str, str], Future[ImageAnswer]] = {}
_lock = threading.Lock()
_pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="registry")
