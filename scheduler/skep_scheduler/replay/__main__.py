"""Prints one JSON line per expectation. Exits with 1 if any failed, 2 if a file cannot be read."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from skep_scheduler.replay.runner import replay_file


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m skep_scheduler.replay", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="cases, as JSON")
    files: list[Path] = parser.parse_args(arguments).files
    code = 0
    for path in files:
        try:
            for line in replay_file(path):
                code = code if line["pass"] else max(code, 1)
                sys.stdout.write(json.dumps(line, default=str) + "\n")
        except (OSError, ValueError, RecursionError) as error:
            sys.stderr.write(f"{path}: {error}\n")
            code = 2
    return code


if __name__ == "__main__":
    sys.exit(main())
