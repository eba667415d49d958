"""Places by estimated completion: Boutin et al., "Apollo: Scalable and Coordinated Scheduling for
Cloud-Scale Computing", OSDI 2014, section 3.

`C = I + W + R`: what a start there costs (I: pulling an image that the node does not have), the
wait at the node (W: pulls that are under way there come first), and the run itself (R). With the
probability `p` that a try fails, `C' = C + p R / (1 - p)`: what is run again. The least C' wins.

What differs from the paper: a GPU has one holder, so that a job goes to idle GPUs only, and W is no
queue of tasks; the scheduler is one, so that no two of them have to agree, and one job is placed at
a time, in the order of its policy, where the paper matches a batch of tasks to servers.
"""

from __future__ import annotations


def completion_s(init_s: float, wait_s: float, run_s: float, failure: float = 0.0) -> float:
    """Return the estimated seconds until a job is done on a node."""
    if failure >= 1:
        return float("inf")
    return init_s + wait_s + run_s + failure * run_s / (1 - failure)
