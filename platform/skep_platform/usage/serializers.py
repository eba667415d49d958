"""What the views of usage take and give."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from rest_framework import serializers

from skep_platform.core.api import Body
from skep_platform.usage.budgets import MAX_HOURS
from skep_platform.usage.queries import DIMENSIONS, MEASURES, NAMED, Question

MAX_DAYS = 3660
DEFAULT_DAYS = 30
MAX_DIMENSIONS = 3


class UsedJobSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(
        allow_null=True, help_text="Null for days that are kept by user and virtual cluster only."
    )
    name = serializers.CharField()


class SumsSerializer(serializers.Serializer[Any]):
    allocated_s = serializers.IntegerField(help_text="GPU-seconds of leases.")
    guaranteed_s = serializers.IntegerField(
        help_text="Of them, those in cells that the virtual cluster owns."
    )
    borrowed_s = serializers.IntegerField(help_text="Of them, those used opportunistically.")
    used_s = serializers.IntegerField(help_text="Weighted by the utilisation of the GPUs.")
    idle_s = serializers.IntegerField(help_text="Measured, and not used.")
    unknown_s = serializers.IntegerField(help_text="Allocated, and without samples.")
    utilization = serializers.FloatField(
        allow_null=True, help_text="Percent of the measured time; null where none was."
    )


class UsageRowSerializer(SumsSerializer):
    day = serializers.DateField(required=False, help_text="As all dimensions: when asked for.")
    month = serializers.CharField(required=False, help_text="As in 2026-11.")
    vc = serializers.CharField(required=False)
    user = serializers.CharField(required=False)
    group = serializers.CharField(
        required=False, help_text="A user counts in each of its groups; empty: in none. For admins."
    )
    job = UsedJobSerializer(required=False)
    gpu_model = serializers.CharField(required=False)

    def get_fields(self) -> dict[str, Any]:
        # `class` is a word of Python.
        kind = serializers.ChoiceField(("guaranteed", "borrowed"), required=False)
        return {**super().get_fields(), "class": kind}


class UsageSerializer(serializers.Serializer[Any]):
    since = serializers.DateField(help_text="The first day (UTC).")
    until = serializers.DateField(help_text="The last day (UTC).")
    by = serializers.ListField(child=serializers.ChoiceField(tuple(DIMENSIONS)))
    total = SumsSerializer()
    results = UsageRowSerializer(many=True)
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)


class UsageQuery(serializers.Serializer[Any]):
    by = serializers.CharField(
        default="day",
        help_text=f"Up to {MAX_DIMENSIONS} of {', '.join(DIMENSIONS)}, with commas between them.",
    )
    since = serializers.DateField(
        required=False, help_text=f"The first day (UTC); default: {DEFAULT_DAYS} days ago."
    )
    until = serializers.DateField(required=False, help_text="The last day (UTC); default: today.")
    vc = serializers.CharField(required=False, max_length=63)
    user = serializers.CharField(required=False, max_length=150)
    gpu_model = serializers.CharField(required=False, max_length=100)
    job = serializers.UUIDField(required=False)
    name = serializers.CharField(
        required=False,
        max_length=255,
        help_text="Only rows whose name contains this, in the first of `by`: one of "
        f"{', '.join(NAMED)}. The total counts all.",
    )
    order = serializers.CharField(
        required=False,
        help_text=f"One of `by`, or of {', '.join(MEASURES)}; with a - before it the most comes "
        "first. Default: as `by` says.",
    )

    def validate_by(self, value: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name for name in value.split(",") if name))
        unknown = [name for name in names if name not in DIMENSIONS]
        if unknown or not 0 < len(names) <= MAX_DIMENSIONS:
            known = ", ".join(DIMENSIONS)
            raise serializers.ValidationError(f"Give 1 to {MAX_DIMENSIONS} of {known}.")
        return names

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        today = datetime.now(UTC).date()
        attrs["until"] = until = attrs.get("until", today)
        if "since" not in attrs:
            attrs["since"] = until - timedelta(days=min(DEFAULT_DAYS - 1, until.toordinal() - 1))
        if not 0 <= (until - attrs["since"]).days < MAX_DAYS:
            raise serializers.ValidationError(
                {"since": [f"It is not after `until`, and at most {MAX_DAYS} days before."]}
            )
        if attrs.get("name") and attrs["by"][0] not in NAMED:
            message = f"Rows have a name where `by` begins with one of {', '.join(NAMED)}."
            raise serializers.ValidationError({"name": [message]})
        order = attrs.get("order", "").removeprefix("-")
        if order and order not in (*attrs["by"], *MEASURES):
            choices = ", ".join((*attrs["by"], *MEASURES))
            raise serializers.ValidationError({"order": [f"Give one of {choices}."]})
        return attrs

    @staticmethod
    def question(values: dict[str, Any]) -> Question:
        return Question(
            since=values["since"],
            until=values["until"],
            by=values["by"],
            vc=values.get("vc", ""),
            username=values.get("user", ""),
            gpu_model=values.get("gpu_model", ""),
            job=values.get("job"),
            name=values.get("name", ""),
            order=values.get("order", ""),
        )


class BudgetSerializer(serializers.Serializer[Any]):
    gpu_hours = serializers.IntegerField(
        allow_null=True, help_text="Guaranteed GPU-hours per calendar month (UTC); null: no limit."
    )
    month = serializers.CharField(help_text="As in 2026-11.")
    until = serializers.DateField(help_text="The first day of the next month.")
    used_s = serializers.IntegerField(help_text="Guaranteed GPU-seconds of this month.")
    percent = serializers.FloatField(allow_null=True)
    state = serializers.ChoiceField(
        ("none", "ok", "warning", "used_up"),
        help_text="`warning` from 80 % on; `used_up`: jobs start only as opportunistic.",
    )
    message = serializers.CharField(help_text="A sentence for people; empty below 80 %.")


class ReportUserSerializer(SumsSerializer):
    user = serializers.CharField()
    jobs = serializers.IntegerField()
    gpus = serializers.FloatField(
        allow_null=True, help_text="That its jobs asked for, on average over the allocated time."
    )


class ReportJobSerializer(SumsSerializer):
    job = UsedJobSerializer()
    user = serializers.CharField()
    gpus = serializers.IntegerField(help_text="Asked for.")


class WaitingTimesSerializer(serializers.Serializer[Any]):
    jobs = serializers.IntegerField(help_text="Submitted in the month, and placed since.")
    p50_s = serializers.IntegerField(allow_null=True, help_text="Seconds to the first placement.")
    p95_s = serializers.IntegerField(allow_null=True)


class ReportSerializer(serializers.Serializer[Any]):
    vc = serializers.CharField()
    month = serializers.CharField(help_text="As in 2026-11.")
    since = serializers.DateField()
    until = serializers.DateField(help_text="The last day; of the present month: today.")
    total = SumsSerializer()
    owned_s = serializers.IntegerField(
        allow_null=True, help_text="GPU-seconds that it owned; null where no samples are left."
    )
    lent_s = serializers.IntegerField(
        allow_null=True, help_text="Of them, those that others borrowed."
    )
    quota_share = serializers.FloatField(
        allow_null=True, help_text="Percent of what it owned that was used with a guarantee."
    )
    users = ReportUserSerializer(many=True)
    idle_jobs = ReportJobSerializer(many=True, help_text="Those that left most idle, at most 10.")
    waiting = WaitingTimesSerializer()
    budget = BudgetSerializer(allow_null=True, help_text="Of the present month only.")


class ReportQuery(serializers.Serializer[Any]):
    month = serializers.RegexField(
        r"\A[12][0-9]{3}-(0[1-9]|1[0-2])\Z",
        required=False,
        help_text="As in 2026-11; default: the present month (UTC).",
    )


class BudgetBody(Body):
    gpu_hours = serializers.IntegerField(min_value=0, max_value=MAX_HOURS)


def last_day_of(month: date) -> date:
    """Return the last day of the month in which a day lies."""
    return (month.replace(day=1) + timedelta(days=31)).replace(day=1) - timedelta(days=1)
