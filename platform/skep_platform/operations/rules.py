"""Rules of administrators, and the alerts that they raise: all writes.

`evaluate` compares what meets a rule now with the alerts that it has. An alert fires once it was
met for the minutes of its rule: the action is done, and the recipients are notified. It ends when
it is met no more, of which they are notified, too. Notifications go the way of all others, by
which each recipient chose e-mail, webhooks or the page alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Node, NodeState
from skep_platform.core.bulk import database_time
from skep_platform.core.errors import Conflict, NotFound, SkepError
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs.lifecycle import messages
from skep_platform.operations import conditions
from skep_platform.operations.conditions import KINDS, Kind, Met
from skep_platform.operations.models import Alert, AlertRule, RuleAction, RuleKind
from skep_platform.telemetry import idle

log = structlog.get_logger(__name__)
MOST_RULES = 100
MOST_RECIPIENTS = 50
KEPT = timedelta(days=90)  # ended alerts
FIELDS = ("name", "kind", "threshold", "for_minutes", "action", "enabled")


# --- rules


@transaction.atomic
def create(recipients: Collection[str] = (), **fields: Any) -> AlertRule:
    """Create a rule; `recipients` are names of users. Raises SkepError `action_not_possible`,
    `threshold_invalid` and `user_unknown`, Conflict `name_taken` and `too_many_rules`."""
    if AlertRule.objects.count() >= MOST_RULES:
        message = f"There are {MOST_RULES} rules already; delete one first."
        raise Conflict(message, code="too_many_rules", most=MOST_RULES)
    made = AlertRule(**fields)
    if "threshold" not in fields:
        made.threshold = _kind(made).default
    _check(made)
    _save(made)
    made.recipients.set(_users(recipients))
    audit.record("alert_rule.create", "alert_rule", made.pk, made.name, after=_facts(made))
    return made


@transaction.atomic
def update(rule_id: UUID, recipients: Collection[str] | None = None, **changes: Any) -> AlertRule:
    """Change a rule. Its alerts begin anew when what it looks for changes. Raises what `create`
    does, and NotFound."""
    rule = find(rule_id, locked=True)
    before = _facts(rule)
    for name, value in changes.items():
        setattr(rule, name, value)
    _check(rule)
    _save(rule)
    if recipients is not None:
        rule.recipients.set(_users(recipients))
    if changes.keys() & {"kind", "threshold", "for_minutes"} or not rule.enabled:
        rule.alerts.filter(ended_at=None).delete()
    audit.record(
        "alert_rule.update", "alert_rule", rule.pk, rule.name, before=before, after=_facts(rule)
    )
    return rule


@transaction.atomic
def delete(rule_id: UUID) -> None:
    """Delete a rule with its alerts. Raises NotFound."""
    rule = find(rule_id, locked=True)
    audit.record("alert_rule.delete", "alert_rule", rule.pk, rule.name, before=_facts(rule))
    rule.delete()


def find(rule_id: UUID, *, locked: bool = False) -> AlertRule:
    """Raises NotFound."""
    rules = AlertRule.objects.select_for_update() if locked else AlertRule.objects
    rule = rules.filter(pk=rule_id).first()
    if rule is None:
        raise NotFound(f"There is no alert rule {rule_id}.", code="rule_not_found")
    return rule


def _kind(rule: AlertRule) -> Kind:
    return KINDS[RuleKind(rule.kind)]


def _check(rule: AlertRule) -> None:
    kind = _kind(rule)
    if rule.action not in kind.actions:
        known = ", ".join(kind.actions)
        message = f"A rule of the kind {rule.kind} can {known}, and not {rule.action}."
        raise SkepError(message, code="action_not_possible", field="action", known=kind.actions)
    if not kind.least <= rule.threshold <= kind.most:
        message = f"The threshold is {kind.least:g} to {kind.most:g} {kind.unit}."
        raise SkepError(
            message, code="threshold_invalid", field="threshold", least=kind.least, most=kind.most
        )


def _save(rule: AlertRule) -> None:
    try:
        with transaction.atomic():
            rule.save()
    except IntegrityError:
        message = f"There is a rule named {rule.name}."
        raise Conflict(message, code="name_taken", name=rule.name) from None


def _users(names: Collection[str]) -> list[User]:
    wanted = set(names)
    found = list(User.objects.filter(username__in=wanted, is_active=True))
    if missing := sorted(wanted - {user.username for user in found}):
        message = f"There is no active user {missing[0]}."
        raise SkepError(message, code="user_unknown", field="recipients", users=missing)
    return found


def _facts(rule: AlertRule) -> dict[str, Any]:
    users = sorted(rule.recipients.values_list("username", flat=True))
    return {name: getattr(rule, name) for name in FIELDS} | {"recipients": users}


# --- alerts


def evaluate() -> None:
    """Bring the alerts of all rules up to date. Safe to run twice at once: a rule that another
    worker evaluates is left out, and of two readings the older one changes nothing any more. A rule
    that fails keeps no other one from being evaluated."""
    for pk in AlertRule.objects.filter(enabled=True).values_list("pk", flat=True):
        rule = AlertRule.objects.filter(pk=pk).first()
        if rule is None:
            continue
        try:
            # Outside of the transaction: certificates are read over the network.
            began = database_time()
            met = conditions.find(rule)
            _apply(rule, met, began)
        except Exception as error:
            log.warning("alert_rule_failed", rule=rule.name, error=str(error)[:300])


@transaction.atomic
def _apply(read: AlertRule, met: Mapping[str, Met], began: datetime) -> None:
    """Take what met a rule as it was read. `began`: when the reading did, by the database. A worker
    that was slow would end an alert that another one has just raised, or raise one that is over."""
    rules = AlertRule.objects.select_for_update(skip_locked=True, of=("self",))
    newest = Q(evaluated_at=None) | Q(evaluated_at__lt=began)
    newest |= Q(evaluated_at__gt=Now())  # by another clock, as before a failover
    rules = rules.filter(newest, pk=read.pk, updated_at=read.updated_at, enabled=True)
    rule = rules.first()
    if rule is None:
        return
    # Without `updated_at`, which says when people changed it.
    AlertRule.objects.filter(pk=rule.pk).update(evaluated_at=began)
    known = {alert.subject: alert for alert in rule.alerts.filter(ended_at=None)}
    new = [_new(rule, one) for subject, one in met.items() if subject not in known]
    Alert.objects.bulk_create(new)
    now = timezone.now()
    for alert in known.values():
        if alert.subject in met:
            alert.message = met[alert.subject].message[:500]
    waits = timedelta(minutes=rule.for_minutes) if _kind(rule).waits else timedelta()
    due = [
        alert
        for alert in (*known.values(), *new)
        if alert.subject in met and alert.fired_at is None and now - alert.created_at >= waits
    ]
    for alert in due:
        alert.fired_at, alert.acted = now, _act(rule, alert)
    over = [alert for alert in known.values() if alert.subject not in met]
    Alert.objects.filter(pk__in=[a.pk for a in over if a.fired_at is None]).delete()
    ended = [alert for alert in over if alert.fired_at is not None]
    for alert in ended:
        alert.ended_at = now
    changed = [a for a in (*known.values(), *new) if a.fired_at is not None]
    Alert.objects.bulk_update(changed, ["message", "fired_at", "acted", "ended_at", "updated_at"])
    _notify(rule, due, ended, met)


def _new(rule: AlertRule, met: Met) -> Alert:
    return Alert(
        rule=rule,
        subject=met.subject,
        message=met.message[:500],
        details={**met.details, "name": met.name, "url": met.url},
    )


def _act(rule: AlertRule, alert: Alert) -> str:
    """Do what the rule says; return a sentence about it, also where it could not be done."""
    if rule.action == RuleAction.NOTIFY:
        return ""
    try:
        with transaction.atomic():
            return _ACTIONS[RuleAction(rule.action)](rule, alert)
    except (SkepError, DatabaseError) as error:
        log.warning("alert_action_failed", rule=rule.name, subject=alert.subject, error=str(error))
        return f"The action {rule.action} failed: {error}"[:300]


def _cordon(rule: AlertRule, alert: Alert) -> str:
    """Cordon a node, unless no other one could take work."""
    if alert.subject == conditions.LOG_STORE:
        return "There is no node to cordon."
    in_use = Node.objects.filter(state=NodeState.ONLINE, cordoned=False)
    others = in_use.select_for_update(no_key=True).order_by("pk").exclude(name=alert.subject)
    if not others:
        return "It was not cordoned, as no other node could take work."
    cluster.cordon(None, alert.subject, f"Rule {rule.name}: {alert.message}"[:300])
    return "The node was cordoned."


def _stop(rule: AlertRule, alert: Alert) -> str:
    minutes = max(rule.for_minutes, 1)
    why = messages.idle(alert.details["gpus"], round(rule.threshold), minutes * 60)
    stopped = idle.stop({UUID(alert.subject): why}, rule=rule.name)
    return "The job was stopped." if stopped else "The job had ended, or is exempt."


_ACTIONS = {RuleAction.CORDON: _cordon, RuleAction.STOP: _stop}


def _notify(
    rule: AlertRule, fired: Sequence[Alert], ended: Sequence[Alert], met: Mapping[str, Met]
) -> None:
    """Record an event for each recipient: those named, else all administrators."""
    if not fired and not ended:
        return
    users = rule.recipients.filter(is_active=True).values_list("pk", flat=True)
    to = list(users) or list(
        User.objects.filter(is_superuser=True, is_active=True).values_list("pk", flat=True)
    )
    events: list[Event] = []
    for alert in fired:
        message = f"{alert.message} {alert.acted}".strip()
        events += [_event(pk, "platform.alert", rule, alert, message) for pk in to]
    for alert in ended:
        message = f"Over: {alert.message}"
        events += [_event(pk, "platform.alert_over", rule, alert, message) for pk in to]
    Event.objects.bulk_create(events)


def _event(user: int, kind: str, rule: AlertRule, alert: Alert, message: str) -> Event:
    name, url = f"{rule.name}: {alert.details['name']}", alert.details["url"]
    return event(
        Event.Subject.USER, user, kind, message, notify=True, name=name, url=url, rule=rule.name
    )


def delete_old() -> int:
    """Delete alerts that ended long ago."""
    return Alert.objects.filter(ended_at__lt=timezone.now() - KEPT).delete()[0]
