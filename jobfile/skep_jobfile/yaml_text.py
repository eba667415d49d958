"""YAML without its dangers: no tags that build objects, no duplicate keys, and aliases count
as often as they are used, so that a bomb is refused while it is read.

The syntax is ruamel's, what plain scalars mean is said in `scalars`. Building the data from the
nodes is done here, so that every problem has its place and all duplicate keys are reported
at once.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from skep_jobfile import scalars
from skep_jobfile.problems import InvalidJobFile, Path, Problem, named, words

__all__ = ["Node", "children", "compose", "construct", "entries", "node_at", "place_of"]

MERGE = "tag:yaml.org,2002:merge"
MAX_TEXT = 1024**2  # characters of all scalars together
MAX_TAG = 1000  # characters; ruamel decodes a tag in quadratic time
# Of a message what quotes nothing but names of tokens and punctuation.
HARMLESS = re.compile(r"""(?:[^'"]|'<[a-z ]+>'|'\\t'|(['"])[^\w\s'"\\]\1)*""")
PLAIN = "tag:skep,plain"  # neither quotes nor a tag


def compose(text: str, max_depth: int, max_nodes: int) -> Node:
    """Return the node graph of the single document in `text`. Raises InvalidJobFile."""
    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = max_depth + 1
    yaml.Composer = partial(_BoundedComposer, max_nodes)  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            root = yaml.compose(text if text.endswith("\n") else text + "\n")
    except InvalidJobFile:
        raise
    except (YAMLError, ValueError, TypeError, AttributeError, LookupError, AssertionError) as error:
        # ruamel's scanner answers some broken texts with errors that are not its own.
        raise _syntax(error) from None
    if root is None:
        raise InvalidJobFile([Problem("empty", "The job file is empty.", "", 1, 1)])
    return root


def construct(root: Node) -> Any:
    """Return plain data: dict, list, str, int, float, bool, None. Raises InvalidJobFile."""
    problems: list[Problem] = []
    data = _construct(root, (), problems)
    if problems:
        raise InvalidJobFile(problems)
    return data


def entries(node: Node | None) -> Iterator[tuple[Node, Node]]:
    """Yield key and value of an object's fields, then of those merged into it, whichever counts."""
    if not isinstance(node, MappingNode):
        return
    for key, value in node.value:
        if isinstance(key, ScalarNode) and key.tag != MERGE:
            yield key, value
    for source in _merged(node):
        yield from entries(source)


def children(node: Node) -> Iterator[tuple[str | int | None, Node]]:
    """The nodes below a node with the step to each; of keys and of what is merged in it is None."""
    if isinstance(node, SequenceNode):
        yield from enumerate(node.value)
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            yield None, key
            plain = isinstance(key, ScalarNode) and key.tag != MERGE
            yield key.value if plain else None, value


def node_at(root: Node | None, path: Path) -> Node | None:
    node = root
    for step in path:
        found = _child(node, step)
        if found is None:
            return None
        node = found[1]
    return node


def place_of(root: Node | None, path: Path, *, at_key: bool = False) -> tuple[int, int]:
    """Line and column, from 1, of the value at `path`, of its key, or of the nearest parent that
    is there."""
    place, node = root, root
    for step in path:
        found = _child(node, step)
        if found is None:
            break
        key, node = found
        place = key if key is not None and (at_key or _on_later_line(key, node)) else node
    return _place(place)


def _on_later_line(key: Node, value: Node) -> bool:
    """A block below its key is best shown at the key."""
    return bool(value.start_mark.line > key.start_mark.line)


class _BoundedComposer(Composer):
    """Refuses more nodes than `max_nodes`, where an alias counts all it stands for, and an alias
    inside of what it stands for."""

    def __init__(self, max_nodes: int, loader: Any = None) -> None:
        super().__init__(loader)
        self.max_nodes = max_nodes
        self.nodes = self.text = 0  # so far, aliases counted as what they stand for
        # id of a finished node -> nodes and characters that it expands to
        self.sizes: dict[int, tuple[int, int]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark = self.parser.peek_event().start_mark
        alias = self.parser.check_event(AliasEvent)
        if _tag_length(self.parser.peek_event()) > MAX_TAG:
            raise _at(mark, "unsupported_tag", f"A tag has at most {MAX_TAG} characters.")
        before = self.nodes, self.text
        node = super().compose_node(parent, index)
        if alias and id(node) not in self.sizes:
            raise _at(mark, "recursive_alias", "An alias inside of its own anchor.")
        nodes, text = self.sizes[id(node)] if alias else (1, _length(node))
        self.nodes, self.text = self.nodes + nodes, self.text + text
        if self.nodes > self.max_nodes:
            message = f"At most {self.max_nodes} values, counting what aliases stand for."
            raise _at(mark, "too_many_values", message)
        if self.text > MAX_TEXT:
            message = f"At most {MAX_TEXT} characters, counting what aliases stand for."
            raise _at(mark, "too_much_text", message)
        self.sizes.setdefault(id(node), (self.nodes - before[0], self.text - before[1]))
        return node

    def compose_scalar_node(self, anchor: Any) -> Any:
        plain = self.parser.peek_event().implicit[0]
        node = super().compose_scalar_node(anchor)
        if plain and str(node.tag) != MERGE:
            node.tag = PLAIN
        return node


def _tag_length(event: Any) -> int:
    tag = getattr(event, "ctag", None)
    return 0 if tag is None else len(tag.suffix or "") + len(tag.handle or "")


def _length(node: Node) -> int:
    return len(node.value) if isinstance(node, ScalarNode) else 0


def _construct(node: Node, path: Path, problems: list[Problem]) -> Any:
    tag = str(node.tag)
    if isinstance(node, MappingNode) and tag.endswith(":map"):
        return _construct_mapping(node, path, problems)
    if isinstance(node, SequenceNode) and tag.endswith(":seq"):
        return [_construct(child, (*path, i), problems) for i, child in enumerate(node.value)]
    read = _SCALARS.get(tag) if isinstance(node, ScalarNode) else None
    if read is None:
        problems.append(_problem(node, "unsupported_tag", "This tag (!…) is not used here.", path))
        return None
    try:
        return read(str(node.value))
    except (ValueError, LookupError):
        message = f"This is no {tag.rpartition(':')[2]}."
        problems.append(_problem(node, "invalid_value", message, path))
        return None


def _construct_mapping(node: MappingNode, path: Path, problems: list[Problem]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            problems.append(_problem(key, "invalid_key", "A key is text.", path))
        elif key.value in data:
            message = f"{named(key.value)} is there twice."
            problems.append(_problem(key, "duplicate_key", message, (*path, key.value)))
        elif key.tag != MERGE:
            data[key.value] = _construct(value, (*path, key.value), problems)
    sources = []
    for source in _merged(node):
        merged = _construct(source, path, problems)
        if isinstance(merged, dict):
            sources.append(merged)
        else:
            problems.append(_problem(source, "invalid_merge", "`<<` takes objects.", path))
    if not sources:
        return data
    whole: dict[str, Any] = {}
    for merged in reversed(sources):  # what is nearer to the object itself wins
        whole.update(merged)
    whole.update(data)
    return whole


def _merged(node: MappingNode) -> Iterator[Node]:
    for key, value in node.value:
        if isinstance(key, ScalarNode) and key.tag == MERGE:
            yield from value.value if isinstance(value, SequenceNode) else (value,)


def _child(node: Node | None, step: str | int) -> tuple[Node | None, Node] | None:
    if isinstance(node, SequenceNode) and isinstance(step, int):
        return (None, node.value[step]) if 0 <= step < len(node.value) else None
    if not isinstance(node, MappingNode):
        return None
    for key, value in node.value:
        if isinstance(key, ScalarNode) and key.value == step and key.tag != MERGE:
            return key, value
    for source in _merged(node):
        if found := _child(source, step):
            return found
    return None


def _tagged(kind: type) -> Callable[[str], Any]:
    """Reads what a tag says is of this type; a whole number is a float, too."""

    def read(text: str) -> Any:
        value = scalars.read(text)
        if type(value) is kind or (kind is float and type(value) is int):
            return value
        raise ValueError

    return read


_SCALARS: dict[str, Callable[[str], Any]] = {
    PLAIN: scalars.read,
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:timestamp": str,
    "tag:yaml.org,2002:int": _tagged(int),
    "tag:yaml.org,2002:float": _tagged(float),
    "tag:yaml.org,2002:bool": _tagged(bool),
    "tag:yaml.org,2002:null": _tagged(type(None)),
}


def _syntax(error: Exception) -> InvalidJobFile:
    if not isinstance(error, MarkedYAMLError):
        return InvalidJobFile([Problem("syntax", f"Not YAML: {_line(str(error))}", "", 1, 1)])
    mark = error.problem_mark or error.context_mark
    said = ", ".join(_line(part) for part in (error.context, error.problem) if part)
    if mark is None:
        return InvalidJobFile([Problem("syntax", f"Not YAML: {said}", "", 1, 1)])
    return _at(mark, "syntax", f"Not YAML: {said}")


def _line(text: str) -> str:
    """In one line, up to where it quotes from the file: that may be a secret."""
    found = HARMLESS.match(text)
    return " ".join(found.group().split())[:200] if found else ""


def _at(mark: Any, code: str, message: str) -> InvalidJobFile:
    return InvalidJobFile([Problem(code, message, "", mark.line + 1, mark.column + 1)])


def _problem(node: Node, code: str, message: str, path: Path) -> Problem:
    return Problem(code, message, words(path), *_place(node))


def _place(node: Node | None) -> tuple[int, int]:
    return (1, 1) if node is None else (node.start_mark.line + 1, node.start_mark.column + 1)
