"""`python -m chaos`: break a whole Skep again and again, and see that nothing is lost.

Exit codes: 0 all held; 1 something did not; 2 it could not run.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from chaos.box import Timing, running
from chaos.campaign import Campaign, stderr, write
from chaos.checks import summary
from chaos.faults import FAULTS


def main() -> int:
    given = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # what was started ends with it
    unknown = set(given.only) - {fault.name for fault in FAULTS}
    if unknown:
        stderr(f"no fault {', '.join(sorted(unknown))}; there are: {_names()}")
        return 2
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(10**6)
    stderr(f"seed {seed}: {given.faults} faults, {given.nodes} nodes of {given.gpus} GPUs")
    with tempfile.TemporaryDirectory(prefix="skep-chaos-") as made:
        folder = given.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        timing = Timing(lease_s=given.lease, patience=given.patience)
        started = time.monotonic()
        size = (given.nodes, given.gpus)
        with running(folder, *size, timing, given.prepared, given.faults) as box:
            stderr(f"started in {time.monotonic() - started:.0f} s")
            campaign = Campaign(box, seed, stderr)
            signal.signal(signal.SIGUSR1, lambda *_: campaign.end_early())
            report = campaign.run(given.faults, given.only, given.seconds)
    if given.report:
        write(report, given.report)
    print(report.table())
    print(f"\n{report.sentence()}")
    if report.violations:
        print(summary(report.violations))
    return 1 if report.violations else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaos", description=__doc__, epilog=f"Faults: {_names()}"
    )
    parser.add_argument("--faults", type=int, default=200, help="how many (200)")
    parser.add_argument("--seed", type=int, help="the same seed draws the same jobs and faults")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--gpus", type=int, default=4, help="of each node")
    parser.add_argument("--lease", type=float, default=15.0, help="of the nodes, in seconds")
    parser.add_argument(
        "--patience", type=float, default=1.0, help="multiplies time limits, for a busy machine"
    )
    parser.add_argument(
        "--prepared", type=Path, help="folder that keeps the tables for later runs, to start sooner"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="no more faults after so long")
    parser.add_argument("--only", action="append", default=[], metavar="FAULT", help="this kind")
    parser.add_argument("--report", type=Path, help="write what was measured to this JSON file")
    parser.add_argument("--keep", type=Path, help="keep state and logs in this folder")
    return parser


def _names() -> str:
    return ", ".join(fault.name for fault in FAULTS)


if __name__ == "__main__":
    sys.exit(main())
