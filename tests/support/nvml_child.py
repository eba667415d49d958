"""The unmodified probe in a process of its own: `LD_LIBRARY_PATH` is read when a process starts.

One JSON line in, `[method, arguments]`; one JSON line out. "renew" makes a new probe.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import structlog

from skep_agent.probes.nvml import NvmlProbe


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
        print(json.dumps(answer, default=lambda model: model.model_dump()), flush=True)


if __name__ == "__main__":
    main()
