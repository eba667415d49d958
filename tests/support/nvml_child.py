"""The unmodified probe in a process of its own: `LD_LIBRARY_PATH` is read when a process starts.

One JSON line in, `[method, arguments]`; one JSON line out. "renew" makes a new probe.
"""

from __future__ import annotations

import json
import sys
from dataclasses import astuple, is_dataclass
from pathlib import Path
from typing import Any

import structlog

from skep_agent.accelerators.nvidia import NvmlProbe


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    probe = NvmlProbe(Path(sys.argv[1]))
    for line in sys.stdin:
        method, arguments = json.loads(line)
        if method == "renew":
            probe.close()
            probe, answer = NvmlProbe(Path(sys.argv[1])), None
        else:
            answer = getattr(probe, method)(*arguments)
        print(json.dumps(answer, default=_plain), flush=True)


def _plain(value: Any) -> object:
    return astuple(value) if is_dataclass(value) else value.model_dump()


if __name__ == "__main__":
    main()
