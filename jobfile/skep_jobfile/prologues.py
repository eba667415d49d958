"""Pieces of shell that run around the commands of a task; for any POSIX shell."""

from __future__ import annotations

from shlex import quote


def step(script: str, *, ignore: bool = False) -> str:
    """The script in a shell of its own; the task ends as it ends, where that is not well."""
    return f"(\n{script}\n) || {'true' if ignore else 'exit'}"


def git(url: str, commit: str, path: str) -> str:
    """A commit in a new folder. Nothing printed repeats the address: it may hold a token."""
    return step(
        f"""\
say() {{ echo "skep: git $1" >&2; exit 1; }}
command -v git >/dev/null || say 'is not in this image; take one that has it'
export GIT_TERMINAL_PROMPT=0
mkdir -p {quote(path)} && cd {quote(path)} && git init -q . || say 'cannot write to its folder'
git remote add origin {quote(url)} 2>/dev/null
git fetch -q --depth 1 origin {commit} 2>/dev/null || git fetch -q origin 2>/dev/null ||
  say 'cannot fetch from the repository; look at its address, the token and the network'
git checkout -q {commit} 2>/dev/null || say 'has no commit {commit}'"""
    )
