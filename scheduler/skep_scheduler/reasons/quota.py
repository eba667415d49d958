"""The VC's quota is used up."""

from __future__ import annotations

from collections.abc import Iterator

from skep_scheduler.gang import gpus_by_model
from skep_scheduler.plan import Reason
from skep_scheduler.reasons import words
from skep_scheduler.reasons.case import Case
from skep_scheduler.reasons.codes import Code


def quota_used_up(case: Case) -> Iterator[Reason]:
    if case.account is None:
        return
    for model, needs in gpus_by_model(case.demands):
        owns, used = case.account.owns.get(model, 0), case.account.used[model]
        if needs + used > owns:
            top, others = case.holders.of(case.vc, model)
            named = [f"{holder['name']} {holder['gpus']}" for holder in top]
            named += [words.count(others, "other")] if others else []
            message = (
                f"Needs {needs} {model}; {case.vc} owns {owns} and uses {used} "
                f"({words.listing(named)})."
            )
            details: dict[str, object] = {
                "vc": case.vc,
                "gpu_model": model,
                "needs": needs,
                "owns": owns,
                "used": used,
                "missing": needs + used - owns,
                "used_by": top,
                "used_by_others": others,
            }
            yield Reason(Code.QUOTA_EXCEEDED, message, details)
