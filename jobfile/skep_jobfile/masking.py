"""A job file as others may see it: the values of its secrets replaced, all else as it was written.

By their place in the parsed document, not by a pattern: OpenPAI's lets JSON, indented and flow
style pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from skep_jobfile import yaml_text
from skep_jobfile.document import MAX_DEPTH, MAX_NODES, Document
from skep_jobfile.editing import Change, edited, replaced
from skep_jobfile.problems import Issue, Path
from skep_jobfile.raw import items, section
from skep_jobfile.secret_values import TAG

MASK = "******"
COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")  # old secrets may stand there
BEHIND = re.compile(r"[ \t,]*#.*")  # a comment on the rest of a line
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
BLANK = frozenset({"", MASK, "~", "null", "Null", "NULL"})


def masked(document: Document) -> str:
    """The text without its secrets; the very text where it has none."""
    data = masked_data(document.data)
    return document.text if data == document.data else edited(document, _changes(document), data)


def masked_data(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with masks for secrets, and for passwords of registries that stand in the
    open."""
    found = dict(data)
    if "secrets" in data:
        found["secrets"] = _masks(data["secrets"])
    if isinstance(data.get("prerequisites"), list):
        found["prerequisites"] = [_without_password(item) for item in data["prerequisites"]]
    return found


def published(document: Document) -> str | None:
    """Return the text for others to start from: names of secrets stay, and comments beside them do
    not. None where the value of a secret, or a password of a registry, stands in it."""
    text, root = document.text, document.yaml
    if root is None:  # JSON, which has no comments
        text = json.dumps(document.data)
        root = yaml_text.compose(text, MAX_DEPTH, MAX_NODES)
    spans = [(key.end_mark.index, value) for key, value in _secrets(root)]
    if not all(_is_blank(text, value) for _, value in spans):
        return None
    for index, item in items(document.data, "prerequisites"):
        password = section(item, "auth").get("password")
        if _is_open(password) and password not in ("", MASK):
            return None
        node = yaml_text.node_at(root, ("prerequisites", index, "auth", "password"))
        if node is not None:
            spans.append((node.end_mark.index, node))
    if document.yaml is None:
        return document.text
    return edited(document, _uncommented(text, spans), document.data)


def check(document: Document) -> list[Issue]:
    """Secrets that are written once and used twice, by anchor and alias: the other place would show
    them."""
    if document.yaml is None or "secrets" not in document.data:
        return []
    hidden = {id(node) for _, part in _secrets(document.yaml) for node in _within(part)}
    shared = next(_uses(document.yaml, (), hidden), None)
    if shared is None:
        return []
    message = "An alias of a secret would show it here; write `<% $secrets.x %>` instead."
    return [Issue("shared_secret", message, shared)]


def _masks(secrets: Any) -> Any:
    """Names without a value are left out: in flow style `{p:x}` is a name, and a secret."""
    if not isinstance(secrets, dict):
        return MASK
    return {key: MASK for key, value in secrets.items() if value is not None}


def _without_password(item: Any) -> Any:
    if not isinstance(item, dict) or not _is_open(section(item, "auth").get("password")):
        return item
    return {**item, "auth": {**item["auth"], "password": MASK}}


def _is_open(password: Any) -> bool:
    """Return whether this is a password itself, not a template that names a secret."""
    return password is not None and not (
        isinstance(password, str) and TAG.fullmatch(password.strip())
    )


def _is_blank(text: str, node: yaml_text.Node) -> bool:
    """Return whether there are only names, with empty values or masks. What is merged in is none:
    it may be shadowed. A name is an identifier with a colon behind it: in flow style `{p:x}` is a
    name, and so is `{x}`, and a secret."""
    if isinstance(node, ScalarNode):
        return node.value in BLANK
    if isinstance(node, SequenceNode):
        return all(_is_blank(text, child) for child in node.value)
    return isinstance(node, MappingNode) and all(
        isinstance(key, ScalarNode)
        and NAME.fullmatch(key.value)
        and ":" in text[key.end_mark.index : value.start_mark.index]
        and _is_blank(text, value)
        for key, value in node.value
    )


def _uncommented(text: str, spans: Iterable[tuple[int, yaml_text.Node]]) -> Iterator[Change]:
    """The text from each place to the end of its node, and of the line, without comments."""
    for start, node in spans:
        end = node.end_mark.index
        if behind := BEHIND.match(text, end):
            comma = "," if "," in behind[0].partition("#")[0] else ""
            yield end, behind.end(), comma
        found = text[start:end]
        if COMMENT.search(found):
            yield start, end, COMMENT.sub("", found).rstrip()


def _changes(document: Document) -> Iterator[Change]:
    for key, value in _secrets(document.root):
        before = document.text[key.end_mark.index : value.start_mark.index]
        masks = json.dumps(_masks(yaml_text.construct(value)), ensure_ascii=False)
        written = COMMENT.sub("", before) + masks
        yield key.end_mark.index, value.end_mark.index, written
    for index, item in items(document.data, "prerequisites"):
        if _is_open(section(item, "auth").get("password")):
            yield from replaced(document, ("prerequisites", index, "auth", "password"), MASK)


def _secrets(root: yaml_text.Node | None) -> Iterator[tuple[yaml_text.Node, yaml_text.Node]]:
    """The field with its value, and those that it hides in objects merged into the file."""
    return (entry for entry in yaml_text.entries(root) if entry[0].value == "secrets")


def _within(node: yaml_text.Node) -> Iterator[yaml_text.Node]:
    yield node
    for _, child in yaml_text.children(node):
        yield from _within(child)


def _uses(node: yaml_text.Node, path: Path, hidden: set[int]) -> Iterator[Path]:
    """Paths outside of `secrets` that lead to what is hidden there."""
    for step, child in yaml_text.children(node):
        if not path and step == "secrets":
            continue
        below = path if step is None else (*path, step)
        if id(child) in hidden:
            yield below
        else:
            yield from _uses(child, below, hidden)
