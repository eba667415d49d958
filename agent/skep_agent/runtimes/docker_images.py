"""Which images of the engine's cache an attempt may use: the cache itself knows no owners.

Content (an image by its id) is *public* when it was on the node before anybody pulled it with
credentials, when it was pulled without any, or when its registry gives it without any.
It may be used by everybody, also while no registry is reached.

Content that was obtained with credentials alone is *private*, and marked so by a tag of ours. Each
use of it needs the registry's word that the attempt's own credentials may read this manifest. A
yes holds for `ANSWER_S`, and the tasks of a gang that start together share one question. A refusal,
and a registry that does not answer, are never remembered.

What the engine is given by a registry that lies about digests is beyond this: a registry of an
attacker who knows the digest of a private image can make the engine believe that it has it. The
administrators' list of allowed registries is the remedy.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import math
import os
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from skep_agent.containers import Progress, RuntimeFailure
from skep_agent.isolation.create import ImageFacts, check_image
from skep_agent.protocol import MAX_CACHED_IMAGES, CachedImage, ImageSpec
from skep_agent.registry_policy import RegistryPolicy, RegistryRefused
from skep_agent.runtimes import docker_pull
from skep_agent.runtimes.docker_engine import Engine, EngineError
from skep_agent.runtimes.docker_pull import login, pull_failure, split_reference
from skep_agent.runtimes.image_cache import ImageCache

PRIVATE_MARK = "skep.local/private"
MAX_GRANTS = 10_000
ANSWER_S = 60.0  # how long a registry's yes to these credentials and this content holds
RECENT_S = 60.0  # so long `pull` saves the creation that follows a look of its own
_DEFAULT_REGISTRY = re.compile(r"(index\.)?docker\.io/")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Found:
    """An image on the node."""

    image_id: str
    private: bool
    digests: tuple[str, ...]  # "repository@sha256:…" of the reference's repository
    facts: ImageFacts


@dataclass(eq=False)
class _Private:
    """A pull with credentials that is not settled: what it brings, and is on the node for the first
    time, is not known to be public."""

    reference: str
    before: frozenset[str]  # ids of the images that were there when it began
    running: bool = True
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Images:
    """`state` is the file in which unsettled pulls survive the agent; None keeps them in memory."""

    def __init__(
        self,
        engine: Engine,
        state: Path | None = None,
        registries: RegistryPolicy | None = None,
        cache: ImageCache | None = None,
    ) -> None:
        """`registries`: those that are asked at all; None: every one. `cache` is given what is
        pulled and used."""
        self._cache = cache
        self._engine = engine
        self._registries = registries
        self._state = state
        self._unsettled = _read(state)
        self._public: set[str] = set()  # pulled without credentials by this process
        # (who, image id): given by `pull`, for the creation that follows.
        self._grants: OrderedDict[tuple[str, str], None] = OrderedDict()
        # who -> (monotonic seconds, facts): what `pull` found last.
        self._recent: OrderedDict[str, tuple[float, ImageFacts]] = OrderedDict()
        # (who, image id) -> monotonic seconds: when the registry said yes.
        self._answers: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._questions: dict[tuple[str, str], asyncio.Future[bool]] = {}  # not answered yet
        self._saved: set[str] = set()  # made by the agent, and on the node until they are pushed
        self._salt = secrets.token_bytes(16)

    async def pull(self, image: ImageSpec, progress: Callable[[Progress], None]) -> None:
        """See `Runtime.pull`."""
        _check(image)
        self._check_registry_name(image)
        if self._cache is not None:
            await self._cache.ask(familiar(image.reference))
        found = None if image.pull == "always" else await self._find(image.reference)
        if found is None and image.pull == "never":
            raise _not_here(image.reference)
        if found is None or not await self._allowed(image, found):
            await self._check_registry(image)
            found = await self._pull(image, progress)
        if found is not None:
            self._keep(image, found)
            if self._cache is not None:
                self._cache.use(found.image_id)
        progress(Progress(100))

    async def names(self) -> list[CachedImage]:
        """Return all images of the engine by their names, the newest first, at most
        MAX_CACHED_IMAGES. Raises RuntimeFailure."""
        try:
            found = await self._engine.call(lambda api: api.images())
        except EngineError as error:
            raise error.failure("engine_down") from None
        names: list[CachedImage] = []
        for image in sorted(found, key=lambda one: one.get("Created") or 0, reverse=True):
            known = (*(image.get("RepoTags") or ()), *(image.get("RepoDigests") or ()))
            names += [
                CachedImage(reference=name, size=max(image.get("Size") or 0, 0))
                for name in known
                if not is_mark(name) and "<none>" not in name
            ]
        return names[:MAX_CACHED_IMAGES]

    async def facts(self, image: ImageSpec) -> ImageFacts:
        """Return what is known of an image that `pull` brought. Raises RuntimeFailure
        "image_not_found" when it is not on the node any more, "image_auth" when it is other
        content now that the attempt may not use."""
        _check(image)
        if facts := self._recent_facts(image):
            return facts
        found = await self._find(image.reference)
        if found is None:
            raise _not_here(image.reference)
        granted = (self._who(image), found.image_id) in self._grants
        if not granted and not await self._allowed(image, found):
            raise _not_here(image.reference)
        return found.facts

    def forget(self, image: ImageSpec) -> None:
        """Look the image up again for the next `facts`: it was removed since `pull` found it."""
        self._recent.pop(self._who(image), None)

    async def check_registry(self, image: ImageSpec) -> None:
        """Check name and addresses of the registry that an image shall be pushed to. Raises
        RuntimeFailure "spec_refused"."""
        self._check_registry_name(image)
        await self._check_registry(image)
        if _repository(image.reference) == PRIVATE_MARK:
            raise _not_here(image.reference)

    def brought(self, image_id: str, name: str) -> None:
        """Take an image that the agent makes: it is removed with those that it pulled, and a pull
        that finds it by its name did not bring it."""
        self._saved.add(image_id)
        if self._cache is not None:
            self._cache.add(image_id, name)

    def removed(self, image_id: str) -> None:
        """Take note that what the agent made is removed again."""
        self._saved.discard(image_id)
        if self._cache is not None:
            self._cache.forget(image_id)

    def _keep(self, image: ImageSpec, found: _Found) -> None:
        """Save the creation that follows a look at the image."""
        self._recent[self._who(image)] = time.monotonic(), found.facts
        while len(self._recent) > MAX_GRANTS:
            self._recent.popitem(last=False)

    def _recent_facts(self, image: ImageSpec) -> ImageFacts | None:
        at, facts = self._recent.get(self._who(image), (-math.inf, None))
        return facts if time.monotonic() - at < RECENT_S else None

    def _check_registry_name(self, image: ImageSpec) -> None:
        """Raises RuntimeFailure "spec_refused"."""
        if self._registries is not None:
            try:
                self._registries.check_name(image.reference)
            except RegistryRefused as error:
                raise RuntimeFailure("spec_refused", str(error)) from None

    async def _check_registry(self, image: ImageSpec) -> None:
        """Check name and addresses of the registry, before anything is asked of it. Raises
        RuntimeFailure "spec_refused"."""
        if self._registries is not None:
            try:
                await self._registries.check(image.reference)
            except RegistryRefused as error:
                raise RuntimeFailure("spec_refused", str(error)) from None

    # --- whose it is

    async def _allowed(self, image: ImageSpec, found: _Found) -> bool:
        """False when its registry does not have this content any more. Raises RuntimeFailure
        "image_auth", or "image_pull" when the registry gives no word."""
        if not found.private:
            return True
        if not await self._word(image, found):
            if image.pull == "never":
                raise _not_here(image.reference)
            return False
        if not image.username:
            await self._publish(found)
        self._grant(image, found.image_id)
        return True

    async def _word(self, image: ImageSpec, found: _Found) -> bool:
        """Return whether the registry has this content and gives it for these credentials, by its
        answer of the last `ANSWER_S` or by one question for all who ask at the same time."""
        key = self._who(image), found.image_id
        if time.monotonic() - self._answers.get(key, -math.inf) < ANSWER_S:
            return True
        question = self._questions.get(key)
        if question is None:
            question = asyncio.ensure_future(self._question(image, found))
            question.add_done_callback(lambda _: self._questions.pop(key, None))
            self._questions[key] = question
        # Shielded: a task of the gang that is stopped does not take the answer from the others.
        given = await asyncio.shield(question)
        if given:
            self._answered(key)
        return given

    def _answered(self, key: tuple[str, str]) -> None:
        self._answers[key] = time.monotonic()
        self._answers.move_to_end(key)
        while len(self._answers) > MAX_GRANTS:
            self._answers.popitem(last=False)

    async def _question(self, image: ImageSpec, found: _Found) -> bool:
        await self._check_registry(image)
        for digest in found.digests:
            try:
                await self._ask_registry(digest, image)
                return True
            except EngineError as error:
                failure = pull_failure(error, image)
                if failure.code != "image_not_found" or not image.username:
                    raise _no_word(failure, image) from None
        return False

    async def _ask_registry(self, digest: str, image: ImageSpec) -> None:
        await self._engine.call(lambda api: api.inspect_distribution(digest, login(image)))

    def _grant(self, image: ImageSpec, image_id: str) -> None:
        self._grants[self._who(image), image_id] = None
        while len(self._grants) > MAX_GRANTS:
            self._grants.popitem(last=False)

    def _who(self, image: ImageSpec) -> str:
        """A reference and credentials; the latter are not kept."""
        said = json.dumps([image.reference, image.username, image.password])
        return hashlib.sha256(self._salt + said.encode()).hexdigest()

    # --- what comes

    async def _pull(self, image: ImageSpec, progress: Callable[[Progress], None]) -> _Found | None:
        before = frozenset(await self._engine.call(lambda api: api.images(quiet=True, all=True)))
        found = await self._pull_as(image, progress, before)
        if found is None or self._cache is None:
            return found
        # What the machine had before is its owner's, also where it got one more name now.
        if found.image_id not in before or self._cache.has(found.image_id):
            self._cache.add(found.image_id, familiar(image.reference))
        return found

    async def _pull_as(
        self, image: ImageSpec, progress: Callable[[Progress], None], before: frozenset[str]
    ) -> _Found | None:
        if not image.username:
            await docker_pull.pull(self._engine, image, progress)
            found = await self._pulled(image.reference)
            if found is not None:
                self._public.add(found.image_id)
                await self._publish(found)
            return found
        coming = _Private(image.reference, before)
        with self._noted(coming):
            try:
                await docker_pull.pull(self._engine, image, progress)
            except RuntimeFailure:
                with suppress(RuntimeFailure):
                    await self._settle(coming)
                raise
            found = await self._settle(coming)
        if found is not None and found.image_id in self._saved:
            return None
        if found is not None:
            self._grant(image, found.image_id)
            if found.private:
                self._answered((self._who(image), found.image_id))
        return found

    async def _pulled(self, reference: str) -> _Found | None:
        """Return what a pull brought; None when its name was given to a saved container since."""
        found = await self._look(reference)
        return None if found is not None and found.image_id in self._saved else found

    @contextmanager
    def _noted(self, coming: _Private) -> Iterator[None]:
        """Until it is settled, also past a cancellation or the end of the agent. Raises
        RuntimeFailure "disk_full" or "image_pull" where that cannot be noted."""
        self._unsettled.append(coming)
        try:
            self._write()
        except OSError as error:
            # Not begun: whoever looks for what it brings would wait for its end.
            self._unsettled.remove(coming)
            code = "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "image_pull"
            message = f"The node cannot note whose {coming.reference} is: {error.strerror}."
            raise RuntimeFailure(code, message) from None
        try:
            yield
        finally:
            coming.running = False
            coming.done.set()

    async def _settle(self, coming: _Private) -> _Found | None:
        """Mark what it brought as private, unless that was here before or is known to be public."""
        found = await self._look(coming.reference)
        unknown = found is not None and not found.private and not self._known(found, coming)
        if found is not None and unknown and not await self._is_public(coming.reference, found):
            await self._mark(found.image_id)
        if coming in self._unsettled:
            self._unsettled.remove(coming)
            try:
                self._write()
            except OSError as error:  # the next agent settles it once more
                log.warning("pull_not_noted", problem=error.strerror)
        return found

    def _known(self, found: _Found, coming: _Private) -> bool:
        return found.image_id in coming.before or found.image_id in self._public

    async def _is_public(self, reference: str, found: _Found) -> bool:
        try:
            return await self._word(ImageSpec(reference=reference), found)
        except RuntimeFailure as failure:
            if failure.code == "engine_down":
                raise
            return False

    async def _mark(self, image_id: str) -> None:
        tag = image_id.removeprefix("sha256:")
        await self._engine.call(lambda api: api.tag(image_id, PRIVATE_MARK, tag))

    async def _publish(self, found: _Found) -> None:
        if found.private:
            mark = f"{PRIVATE_MARK}:{found.image_id.removeprefix('sha256:')}"
            with suppress(EngineError):  # another attempt did
                await self._engine.call(lambda api: api.remove_image(mark, noprune=True))

    # --- what is there

    async def _find(self, reference: str) -> _Found | None:
        """What is there, once it is known whose it is."""
        while True:
            found = await self._look(reference)
            if found is None or found.private or found.image_id in self._public:
                return found
            for coming in self._unsettled:
                if found.image_id not in coming.before:
                    break
            else:
                return found
            if coming.running:
                await coming.done.wait()
            else:
                await self._settle(coming)

    async def _look(self, reference: str) -> _Found | None:
        """By name alone: the engine would also take the beginning of any image's id."""
        wanted = familiar(reference)
        try:
            image = await self._engine.call(lambda api: api.inspect_image(wanted))
        except EngineError as error:
            if error.status == 404:
                return None
            raise error.failure("image_pull") from None
        tags, digests = image.get("RepoTags") or (), image.get("RepoDigests") or ()
        if wanted not in (*tags, *digests):
            return None
        repository = _repository(wanted)
        return _Found(
            image["Id"],
            any(is_mark(tag) for tag in tags),
            tuple(digest for digest in digests if _repository(digest) == repository),
            _facts(image),
        )

    def _write(self) -> None:
        if self._state is None:
            return
        rows = [{"reference": p.reference, "before": sorted(p.before)} for p in self._unsettled]
        fresh = self._state.with_suffix(".new")
        fresh.write_text(json.dumps(rows))
        os.replace(fresh, self._state)


def is_mark(tag: str) -> bool:
    """Return whether a tag is the mark of a private image."""
    return tag.startswith(f"{PRIVATE_MARK}:")


def familiar(reference: str) -> str:
    """Return the reference as the engine lists it: without the default registry, and with a tag or
    a digest."""
    name, part = split_reference(reference)
    name = _DEFAULT_REGISTRY.sub("", name, count=1) if _DEFAULT_REGISTRY.match(name) else name
    name = name.removeprefix("library/")
    return f"{name}{'@' if part.startswith('sha256:') else ':'}{part}"


def _repository(familiar_name: str) -> str:
    return split_reference(familiar_name)[0]


def _facts(image: dict[str, Any]) -> ImageFacts:
    config = image.get("Config") or {}
    return ImageFacts(
        image["Id"],
        tuple(config.get("Env") or ()),
        config.get("WorkingDir") or "",
        config.get("User") or "",
        tuple(config.get("Entrypoint") or ()),
        tuple(config.get("Cmd") or ()),
    )


def _check(image: ImageSpec) -> None:
    check_image(image)
    if _repository(image.reference) == PRIVATE_MARK:
        raise _not_here(image.reference)


def _read(state: Path | None) -> list[_Private]:
    """What a former life of the agent did not settle."""
    if state is None or not state.exists():
        return []
    try:
        rows = json.loads(state.read_text())
        return [_Private(r["reference"], frozenset(r["before"]), running=False) for r in rows]
    except (ValueError, KeyError, TypeError):
        return []


def _no_word(failure: RuntimeFailure, image: ImageSpec) -> RuntimeFailure:
    if failure.code == "image_pull":
        message = (
            f"{image.reference} is on this node, but was pulled with credentials: whether this job"
            f" may use it, only its registry can say, which does not answer ({failure.message})."
        )
    else:
        message = (
            f"{image.reference} is on this node, but was pulled with credentials: the registry does"
            f" not give it for those of this job ({failure.message})."
        )
    code = "image_auth" if failure.code == "image_not_found" else failure.code
    return RuntimeFailure(code, message)


def _not_here(reference: str) -> RuntimeFailure:
    return RuntimeFailure("image_not_found", f"{reference} is not on this node.")
