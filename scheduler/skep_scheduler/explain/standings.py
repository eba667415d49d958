"""Where a gang stands under the policy of its virtual cluster, in the words of the policy.

The numbers are plain data that a policy gives (`Decision.standing`), so that a sentence can be
written again for each reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skep_scheduler.explain import words

Numbers = Mapping[str, Any]


def sentence(numbers: Numbers, now: float) -> str:
    """Return half a sentence about the gang, such as "it has had 3.2 GPU-hours, so it is in queue 2
    of 2; jobs of queue 1 go first"; "" for a policy of another version. `now` is the moment that
    its times count from (seconds since the epoch)."""
    words_of = SENTENCES.get(numbers.get("policy", ""))
    return words_of(numbers, now) if words_of is not None else ""


def _queues(numbers: Numbers, now: float) -> str:
    queue, queues = numbers["queue"], numbers["queues"]
    had = f"it has had {_gpu_time(numbers['served_gpu_s'])}"
    if queue == 1:
        return f"{had}, so it is in queue 1 of {queues}, which goes first" if queues > 1 else had
    before = words.listing([str(n) for n in range(1, queue)])
    which = f"jobs of queue {before}" if queue == 2 else f"jobs of queues {before}"
    return f"{had}, so it moved to queue {queue} of {queues}; {which} go first"


def _chances(numbers: Numbers, now: float) -> str:
    earlier = numbers["earlier_jobs"]
    if "least_jobs" in numbers:
        few = f"{words.count(earlier, 'job')} of {numbers['least_jobs']} have ended"
        within = f"the first submitted goes first until more is known ({few})"
    elif earlier:
        share, soon = numbers["ended_soon"] / earlier, _gpu_time(numbers["soon_gpu_s"])
        within = (
            f"those that most probably end soon go first: {share:.0%} of the earlier jobs "
            f"that were served longer than it was ended within {soon} more"
        )
    else:
        within = "no earlier job was served longer than it was, so the others go first"
    return f"{_queues(numbers, now)}; within a queue {within}"


def _turns(numbers: Numbers, now: float) -> str:
    what = f"its share is {numbers['share']:.2f} of the time, it has had {numbers['had']:.2f}"
    if numbers["share"] <= 0:
        what = "it has no share of the time now and runs on what others leave idle"
    waits = f"the next round begins {words.soon(numbers['next_round'] - now)}"
    warning = f" ({numbers['warning']})" if numbers.get("warning") else ""
    return f"{what}; {waits}{warning}"


def _weights(numbers: Numbers, now: float) -> str:
    looks = f"jobs are compared again {words.soon(numbers['next_round'] - now)}"
    if "value" not in numbers:
        return f"it came after they were compared; {looks}"
    why = {"due": "its deadline", "left": "its remaining time", "wait": "its wait"}
    mostly = f"{why[numbers['mostly']]} counts most for it"
    return f"its value is {numbers['value']:.2f}, the largest goes first; {mostly}; {looks}"


def _auctions(numbers: Numbers, now: float) -> str:
    looks = f"the next auction of GPUs is {words.soon(numbers['next_round'] - now)}"
    if "rho" not in numbers:
        return f"it came after the last auction; {looks}"
    late = (
        f"without GPUs in this term it ends after {numbers['rho']:.2f} times as long as with an "
        f"equal part of them, and jobs with the largest such number go first"
    )
    return f"{late}{'' if numbers['bids'] else ', so it does not bid'}; {looks}"


def _terms(numbers: Numbers, now: float) -> str:
    looks = f"the next term begins {words.soon(numbers['next_round'] - now)}"
    if "due" not in numbers:
        return f"it came within a term; {looks}"
    due = {
        "": "it has no deadline, so it runs on what those with one leave",
        "late": "its deadline cannot be met any more, so it runs on what the others leave",
        "met": "it meets its deadline without this term, so others may go first",
    }[numbers["due"]]
    if numbers["planned"]:
        due = "it needs this term to meet its deadline, so it goes first"
    return f"{due}; {looks}"


def _sizes(numbers: Numbers, now: float) -> str:
    policy, tasks = numbers["policy"], numbers["tasks"]
    if not tasks:
        return f"{policy} gives it no GPUs now"
    size = f"{words.count(tasks, 'task')} with {words.count(numbers['gpus'], 'GPU')}"
    return f"{policy} gives it {size}"


def _gpu_time(gpu_s: float) -> str:
    if gpu_s < 360:
        return words.count(round(gpu_s), "GPU-second")
    return f"{gpu_s / 3600:.1f} GPU-hours"


SENTENCES: dict[str, Callable[[Numbers, float], str]] = {
    "tiresias": _queues,
    "tiresias_gittins": _chances,
    "gandiva_fair": _turns,
    "gandiva_trading": _turns,
    "stride": _turns,
    "gavel": _turns,
    "chronus": _terms,
    "mlfs": _weights,
    "themis": _auctions,
    **dict.fromkeys(("afs", "coddl", "elasticflow", "karuna", "optimus"), _sizes),
}
