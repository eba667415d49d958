"""Which images a list of patterns allows: the server compares at the submit, the agent again before
a start.

A pattern is compared with the name of an image alone and with its name and tag, or its name and
digest. A `*` stands for any characters, also for slashes. A digest decides: engines ignore the tag
of a reference that has both, and so does this comparison.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from skep_agent.registry_policy import DOCKER_HUB, DOCKER_HUB_NAMES, registry_of

MAX_PATTERNS = 100  # of one virtual cluster
MAX_STARS = 8  # of one pattern
PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9*._/:@+-]{0,511}")
LATEST = "latest"


def is_pattern(text: str) -> bool:
    """Return whether the text is a pattern for images, such as pytorch/* or NAME@sha256:…."""
    return PATTERN.fullmatch(text) is not None and text.count("*") <= MAX_STARS


def allows(patterns: Iterable[str], reference: str) -> bool:
    """Return whether one of the patterns matches a reference."""
    return next(matching(patterns, reference), None) is not None


def matching(patterns: Iterable[str], reference: str) -> Iterator[str]:
    """Yield the patterns that match a reference."""
    name, tag, digest = _parts(reference)
    forms = (name, f"{name}@{digest}" if digest else f"{name}:{tag}")
    return (one for one in patterns if any(fnmatchcase(form, _canonical(one)) for form in forms))


def is_latest(reference: str) -> bool:
    """Return whether a reference has the tag `latest`, or neither a tag nor a digest."""
    _, tag, digest = _parts(reference)
    return not digest and tag == LATEST


def refusal(patterns: Sequence[str], latest: bool, reference: str) -> str:
    """Return why the rules of a virtual cluster do not allow an image; "" where they do. Without
    patterns every image is allowed; rules that are malformed allow none."""
    if len(patterns) > MAX_PATTERNS or not all(is_pattern(one) for one in patterns):
        return "the rules for images of its virtual cluster are malformed"
    if patterns and not allows(patterns, reference):
        return f"no pattern of its virtual cluster allows the image {reference[:80]}"
    if not latest and is_latest(reference):
        return f"its virtual cluster allows no image by the tag latest, as {reference[:80]}"
    return ""


def listed_name(reference: str) -> str:
    """Return a reference as engines list it: without the names of Docker Hub, and with a tag or a
    digest."""
    name, tag, digest = _parts(reference)
    return f"{name}@{digest}" if digest else f"{name}:{tag}"


def _parts(reference: str) -> tuple[str, str, str]:
    """Return name, tag and digest; the name without the names of Docker Hub."""
    named, _, digest = reference.partition("@")
    head, colon, tag = named.rpartition(":")
    if not colon or "/" in tag:
        head, tag = named, LATEST
    return _canonical(head), tag, digest


def _canonical(name: str) -> str:
    """Return a name, or the pattern of one, as `docker images` lists it: names of hosts have no
    case, and those of Docker Hub are left out."""
    registry, slash, rest = name.partition("/")
    if slash and registry_of(name) != DOCKER_HUB:
        name = f"{registry.lower()}/{rest}"
        registry = registry.lower()
    if slash and registry.lower() in DOCKER_HUB_NAMES:
        name = rest
    return name.removeprefix("library/")
