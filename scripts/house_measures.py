"""The measures of scripts/house: each rule yields the places of a checkout that break it."""

from __future__ import annotations

import ast
import fnmatch
import io
import re
import statistics
import subprocess
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import house_docstrings

TEXT = {
    ".py",
    ".ts",
    ".tsx",
    ".md",
    ".yaml",
    ".yml",
    ".toml",
    ".sh",
    ".css",
    ".html",
    ".json",
    ".tpl",
}
LONG_FILE = 500  # lines
SHORT_FILE = 100  # lines
WORD = re.compile(r"[A-Za-z]+")
IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
TS_STRING = re.compile(
    r"//.*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`", re.S
)


@dataclass(frozen=True)
class Hit:
    """One place that breaks a rule."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class Found:
    """All measures of a checkout: hits by rule and area, and the shape of each package."""

    rules: dict[str, dict[str, int]]
    packages: dict[str, dict[str, float]]


def read_config(path: Path) -> dict[str, Any]:
    """Return the parsed house.toml."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


class Checkout:
    """The tracked text files of a checkout, read and parsed once."""

    def __init__(self, root: Path, config: dict[str, Any]) -> None:
        self.root = root
        self.config = config

    @cached_property
    def files(self) -> dict[str, str]:
        """Return the text of each tracked file that is written by hand, by path."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\0")
        skipped = self.config["skip"]
        return {
            name: (self.root / name).read_text(encoding="utf-8")
            for name in sorted(filter(None, listed))
            if (Path(name).suffix in TEXT or name.startswith(("scripts/", "Makefile", ".ci/")))
            and not any(fnmatch.fnmatch(name, pattern) for pattern in skipped)
            and (self.root / name).is_file()
        }

    @cached_property
    def python(self) -> dict[str, ast.Module]:
        """Return the syntax tree of each Python file, by path."""
        return {name: ast.parse(text) for name, text in self.files.items() if name.endswith(".py")}

    @cached_property
    def modules(self) -> dict[str, str]:
        """Return the path of each module of the distributions, by its dotted name."""
        found = {}
        for path in self.python:
            root, _, rest = path.partition("/")
            if root in self.config["packages"] and rest.startswith("skep_"):
                found[rest.removesuffix(".py").removesuffix("/__init__").replace("/", ".")] = path
        return found

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """Return the modules of ours that each module imports, by its dotted name."""
        return {name: set(_imports(name, path, self)) for name, path in self.modules.items()}

    @cached_property
    def prose(self) -> dict[str, list[tuple[int, str]]]:
        """Return (line, text) of comments, docstrings and other texts of each file, by path."""
        return {name: list(_prose(name, text)) for name, text in self.files.items()}


def area(path: str) -> str:
    """Return the part of the repository that a path belongs to, e.g. "platform/jobs"."""
    parts = path.split("/")
    if parts[0] == "platform" and len(parts) > 3:
        return f"platform/{parts[2]}"
    return parts[0] if len(parts) > 1 else "root"


# Language


def banned_words(checkout: Checkout) -> Iterator[Hit]:
    """Yield each banned word in prose, with its replacement."""
    words = checkout.config["prose"]
    for path, pieces in checkout.prose.items():
        allowed = _allowed(checkout, path)
        for line, text in pieces:
            for offset, row in enumerate(text.splitlines()):
                for match in WORD.finditer(row):
                    word = match[0].lower()
                    if word not in words or word in allowed or _is_javascripts(path, match[0]):
                        continue
                    yield Hit(path, line + offset, f"{match[0]} -> {words[word]} | {row.strip()}")


def old_names(checkout: Checkout) -> Iterator[Hit]:
    """Yield each use of an identifier that was replaced, in Python and TypeScript."""
    parts, names = checkout.config["name_parts"], checkout.config["names"]
    for path, text in checkout.files.items():
        if not path.endswith((".py", ".ts", ".tsx")):
            continue
        for line, name in _identifiers(path, text):
            if _is_javascripts(path, name):
                continue
            old = (
                name
                if name in names
                else next(
                    (part for part in map(str.lower, PART.findall(name)) if part in parts), None
                )
            )
            if old is not None and old not in _allowed(checkout, path):
                yield Hit(path, line, f"{name} -> {names.get(old) or parts.get(old)}")


def old_modules(checkout: Checkout) -> Iterator[Hit]:
    """Yield each file whose name was replaced."""
    for path in checkout.files:
        for pattern, new in checkout.config["modules"].items():
            if fnmatch.fnmatch(path, f"*{pattern}") and not path.startswith("tests/"):
                yield Hit(path, 1, f"-> {new}")
                break


def docstring_fragments(checkout: Checkout) -> Iterator[Hit]:
    """Yield each docstring of a function whose first sentence seems to have no verb."""
    verbs = house_docstrings.Verbs(checkout.config["verbs"])
    for path, node, text in _docstrings(checkout):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = house_docstrings.first_sentence(text)
            if not verbs.in_sentence(first):
                yield Hit(path, node.lineno, first)


def commit_subjects(checkout: Checkout) -> Iterator[Hit]:
    """Yield each commit whose subject is not `area: imperative summary` in the standard's words.

    Only commits after `since` of house.toml count; a clone that does not reach it has none.
    """
    config = checkout.config["commits"]
    verbs = house_docstrings.Verbs(checkout.config["verbs"])
    done = subprocess.run(
        ["git", "log", "--no-merges", "--format=%h %s", f"{config['since']}..HEAD"],
        cwd=checkout.root,
        capture_output=True,
        text=True,
        check=False,
    )
    for row in done.stdout.splitlines():
        commit, _, subject = row.partition(" ")
        wrong = _wrong_subject(subject, verbs, checkout.config)
        if wrong:
            yield Hit(".git", 1, f"{commit} {subject}: {wrong}")


def _wrong_subject(
    subject: str, verbs: house_docstrings.Verbs, config: dict[str, Any]
) -> str | None:
    area_of, colon, summary = subject.partition(": ")
    words = [word.lower() for word in WORD.findall(summary)]
    if not colon or not re.fullmatch(r"[a-z0-9][a-z0-9 ,/_.-]*", area_of) or not words:
        return "not `area: imperative summary`"
    if verbs.is_third_person(words[0]) or words[0].endswith(("ed", "ing")):
        return f"{words[0]!r} is no imperative"
    if len(subject) > config["commits"]["longest"]:
        return f"longer than {config['commits']['longest']} characters"
    if subject.endswith("."):
        return "ends with a full stop"
    banned = [word for word in words if word in config["prose"]]
    return f"banned words: {', '.join(banned)}" if banned else None


# Structure


def same_class_names(checkout: Checkout) -> Iterator[Hit]:
    """Yield each further class of one name in one distribution. Nested classes are not counted."""
    seen: dict[tuple[str, str], str] = {}
    for path, tree in checkout.python.items():
        if area(path).split("/")[0] not in checkout.config["packages"]:
            continue
        for node in tree.body:
            if "/management/commands/" in path:
                continue  # Django wants each to be a `Command`
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                key = (path.split("/")[0], node.name)
                if key in seen:
                    yield Hit(path, node.lineno, f"{node.name}: also in {seen[key]}")
                seen.setdefault(key, path)


def single_importers(checkout: Checkout) -> Iterator[Hit]:
    """Yield each short module, not a package, that exactly one other module imports: whether it has
    a life of its own is a question for a reader. A longer one has, and so have a policy, which is
    one module by the standard, registered once, and the requests of one part of the API, which
    `skep_client.calls` collects."""
    importers = _importers(checkout)
    for name, path in checkout.modules.items():
        if "/policies/" in path or "/skep_client/calls/" in path:
            continue
        short = checkout.files[path].count("\n") < SHORT_FILE
        if short and len(importers[name]) == 1 and not path.endswith("__init__.py"):
            yield Hit(path, 1, f"imported by {next(iter(importers[name]))} only")


def import_circles(checkout: Checkout) -> Iterator[Hit]:
    """Yield each module that takes part in a circle of imports."""
    for circle in _circles(checkout.imports):
        for name in circle:
            others = ", ".join(other for other in circle if other != name)
            yield Hit(checkout.modules[name], 1, f"in a circle with {others}")


def long_files(checkout: Checkout) -> Iterator[Hit]:
    """Yield each source file of more than 500 lines."""
    for path, text in checkout.files.items():
        lines = text.count("\n")
        if path.endswith((".py", ".ts", ".tsx")) and lines > LONG_FILE:
            yield Hit(path, 1, f"{lines} lines")


RULES: dict[str, Callable[[Checkout], Iterator[Hit]]] = {
    "banned-words": banned_words,
    "old-names": old_names,
    "old-modules": old_modules,
    "docstring-fragments": docstring_fragments,
    "commit-subjects": commit_subjects,
    "same-class-names": same_class_names,
    "single-importers": single_importers,
    "import-circles": import_circles,
    "long-files": long_files,
}


def measure(checkout: Checkout) -> Found:
    """Return the number of hits of each rule in each area, and the shape of each package."""
    rules = {
        name: dict(sorted(Counter(area(hit.path) for hit in rule(checkout)).items()))
        for name, rule in RULES.items()
    }
    return Found(rules, _packages(checkout))


def _packages(checkout: Checkout) -> dict[str, dict[str, float]]:
    """Return files, lines, their median and 90th percentile, and docstrings in percent."""
    sizes: dict[str, list[int]] = defaultdict(list)
    documented: Counter[str] = Counter()
    for path in checkout.modules.values():
        package = path.split("/")[0]
        if checkout.files[path].strip():
            sizes[package].append(checkout.files[path].count("\n"))
        for node in ast.walk(checkout.python[path]):
            documented[package] += _docstring_lines(node)
    return {name: _shape(sizes[name], documented[name]) for name in sorted(sizes)} | {
        "all": _shape([n for some in sizes.values() for n in some], documented.total())
    }


def _shape(sizes: list[int], documented: int) -> dict[str, float]:
    tenths = statistics.quantiles(sizes, n=10) if len(sizes) > 1 else [sizes[0]] * 9
    return {
        "files": len(sizes),
        "lines": sum(sizes),
        "median": statistics.median(sizes),
        "p90": round(tenths[8]),
        "docstrings_percent": round(100 * documented / max(1, sum(sizes)), 1),
    }


def table(found: Found) -> str:
    """Return the measures as text: the rules by area, then the packages."""
    areas = sorted({name for counts in found.rules.values() for name in counts})
    short = [name.replace("-", "\n").split("\n") for name in found.rules]
    head = f"{'':24}" + "".join(f"{words[0][:10]:>11}" for words in short)
    under = f"{'':24}" + "".join(f"{' '.join(words[1:])[:10]:>11}" for words in short)
    rows = [
        f"{name:24}" + "".join(f"{counts.get(name, 0):>11}" for counts in found.rules.values())
        for name in areas
    ]
    total = f"{'total':24}" + "".join(f"{sum(c.values()):>11}" for c in found.rules.values())
    packages = [
        f"{name:24}" + "".join(f"{value:>11g}" for value in shape.values())
        for name, shape in found.packages.items()
    ]
    columns = f"{'':24}" + "".join(
        f"{name[:10]:>11}" for name in next(iter(found.packages.values()))
    )
    return "\n".join([head, under, *rows, total, "", columns, *packages])


# Reading


def _allowed(checkout: Checkout, path: str) -> set[str]:
    return {
        word
        for pattern, words in checkout.config["allow"].items()
        if fnmatch.fnmatch(path, pattern)
        for word in words
    }


def _is_javascripts(path: str, name: str) -> bool:
    """Return whether the name is JavaScript's own `Promise` or made with it."""
    return path.endswith((".ts", ".tsx")) and name in {"Promise", "PromiseLike"}


def _prose(path: str, text: str) -> Iterator[tuple[int, str]]:
    if path.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT or (
                token.type in (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1))
                and (" " in token.string or '"""' in token.string)
            ):
                yield token.start[0], token.string
    elif path.endswith((".ts", ".tsx")):
        for number, row in enumerate(_without_code(text).splitlines(), 1):
            if row.strip():
                yield number, row
    else:
        yield 1, text


def _without_code(text: str) -> str:
    """Return TypeScript with what is no comment, text or JSX text blanked, lines kept."""
    kept, at = [], 0
    for match in TS_STRING.finditer(text):
        kept.append(_jsx_text(text[at : match.start()]))
        single = " " not in match[0]
        kept.append(re.sub(r"[^\n]", " ", match[0]) if single else match[0])
        at = match.end()
    kept.append(_jsx_text(text[at:]))
    return "".join(kept)


def _jsx_text(code: str) -> str:
    """Keep words between `>` and `<` or a brace, as JSX has them; blank the rest."""

    def blank(part: str) -> str:
        return re.sub(r"[^\n]", " ", part)

    kept, at = [], 0
    for match in re.finditer(r"(?<=[>}])[^<>{}=;()]*(?=[<{]|$)", code):
        if re.search(r"[A-Za-z]+\s+[A-Za-z]+", match[0]):
            kept += [blank(code[at : match.start()]), match[0]]
            at = match.end()
    return "".join([*kept, blank(code[at:])])


def _identifiers(path: str, text: str) -> Iterator[tuple[int, str]]:
    if path.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                yield token.start[0], token.string
        return
    blanked = TS_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    prose = _jsx_text(blanked)
    for number, (row, words) in enumerate(
        zip(blanked.split("\n"), prose.split("\n"), strict=True), 1
    ):
        for match in IDENTIFIER.finditer(row):
            if words[match.start() : match.end()].strip() == "":
                yield number, match[0]


def _docstrings(checkout: Checkout) -> Iterator[tuple[str, Any, str]]:
    for path, tree in checkout.python.items():
        if path.startswith("tests/"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node)
                if text:
                    yield path, node, text


def _docstring_lines(node: ast.AST) -> int:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        return 0
    if ast.get_docstring(node) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


def _imports(name: str, path: str, checkout: Checkout) -> Iterator[str]:
    package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
    for node in ast.walk(checkout.python[path]):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in checkout.modules)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                target = f"{base}.{alias.name}"
                if target not in checkout.modules:
                    if _is_skipped_module(base, alias.name, checkout):
                        continue
                    target = base
                if target in checkout.modules and target != name:
                    yield target


def _is_skipped_module(package: str, name: str, checkout: Checkout) -> bool:
    """Return whether the package has a module of this name that is not measured: a generated one.
    To import it is not to import from the package's own file."""
    init = Path(checkout.modules.get(package, ""))
    return init.name == "__init__.py" and (checkout.root / init.parent / f"{name}.py").is_file()


def _importers(checkout: Checkout) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for name, targets in checkout.imports.items():
        for target in targets:
            found[target].add(name)
    return found


def _circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one module (Tarjan, iterative)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles = []
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    circle = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    if len(circle) > 1:
                        circles.append(sorted(circle))
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                work.append((target, iter(sorted(graph[target]))))
            elif target in stack:
                low[node] = min(low[node], index[target])
    return circles
