"""Rules of administrators, and the alerts that they raise: all writes.

`evaluate` compares what meets a rule now with the alerts that it has. An alert fires once it was
met for the minutes of its rule: the action is done, and the recipients are notified. It ends when
it is met no more, of which they are notified, too. Notifications go the way of all others, by
which each recipient chose e-mail, webhooks or the page alone.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.cluster import faults
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import NodeState
from skep_platform.core import failures, one_by_one
from skep_platform.core.bulk import database_time, deletion_time, insert_rows
from skep_platform.core.deleting import delete_in_batches
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
MOST = 200  # alerts of one rule that are raised, that fire and that end, in one evaluation
EVENTS = 1000  # that one statement stores
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
    """Change a rule. Its alerts begin anew when what it looks for changes: those that fired are
    over. Another action is done for those that are open, too. Raises what `create` does, and
    NotFound."""
    rule = find(rule_id, locked=True)
    before = _facts(rule)
    after = before | changes
    if not after["enabled"]:
        _close(rule, "disabled")
    elif any(after[name] != before[name] for name in ("kind", "threshold", "for_minutes")):
        _close(rule, "changed")
    elif after["action"] != before["action"]:
        fired = list(rule.alerts.filter(ended_at=None, fired_at__isnull=False))
        for alert in fired:
            alert.details[PENDING] = after["action"] != RuleAction.NOTIFY
        Alert.objects.bulk_update(fired, ["details"], batch_size=MOST)
    for name, value in changes.items():
        setattr(rule, name, value)
    _check(rule)
    _save(rule)
    if recipients is not None:
        rule.recipients.set(_users(recipients))
    audit.record(
        "alert_rule.update", "alert_rule", rule.pk, rule.name, before=before, after=_facts(rule)
    )
    return rule


@transaction.atomic
def delete(rule_id: UUID) -> None:
    """Delete a rule with its alerts, of which those that fired are over. Raises NotFound."""
    rule = find(rule_id, locked=True)
    audit.record("alert_rule.delete", "alert_rule", rule.pk, rule.name, before=_facts(rule))
    _close(rule, "deleted")
    rule.delete()


def _close(rule: AlertRule, what: str) -> None:
    """End the open alerts of a locked rule, and notify those who were notified of them. `what`: was
    done to the rule."""
    alerts = rule.alerts.filter(ended_at=None)
    alerts.filter(fired_at=None).delete()
    fired = list(alerts.order_by("pk"))
    others = f", and {len(fired) - MOST:,} others" if len(fired) > MOST else ""
    why = f"Over{others}, as the rule was {what}: "
    _notify(rule, "platform.alert_over", fired[:MOST], why)
    alerts.update(ended_at=Now(), updated_at=Now())


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
    that fails keeps no other one from being evaluated; the first error is raised at the end."""
    failed: Exception | None = None
    for pk in AlertRule.objects.filter(enabled=True).order_by("pk").values_list("pk", flat=True):
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
            failures.leave_broken(error)
            failed = failed or error
    if failed is not None:
        raise failed


@transaction.atomic
def _apply(read: AlertRule, met: Mapping[str, Met], began: datetime) -> None:
    """Take what met a rule as it was read. `began`: when the reading did, by the database. A worker
    that was slow would end an alert that another one has just raised, or raise one that is over.
    Of what is new, of what is due and of what is over, some is left to the next evaluation where
    it is more than MOST."""
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
    now = database_time()
    over = [alert for alert in known.values() if alert.subject not in met]
    Alert.objects.filter(pk__in=[a.pk for a in over if a.fired_at is None]).delete()
    ended = [alert for alert in over if alert.fired_at is not None][:MOST]
    for alert in ended:
        alert.ended_at = now
    lasting = [alert for alert in known.values() if alert.subject in met]
    changed = {alert.pk: alert for alert in (*ended, *_brought_up_to_date(lasting, met, now))}
    new = [_new(rule, one) for subject, one in met.items() if subject not in known][:MOST]
    insert_rows(new)
    for alert in new:  # the insert notes the time of this process
        alert.created_at = alert.updated_at = now
    due = _due(rule, [*lasting, *new], now)
    news = _fire(rule, due, now)
    changed |= {alert.pk: alert for alert in due}
    Alert.objects.bulk_update(changed.values(), CHANGED, batch_size=MOST)
    _notify(rule, "platform.alert", news)
    _notify(rule, "platform.alert_over", ended, "Over: ")


CHANGED = ("message", "details", "created_at", "fired_at", "acted", "ended_at", "updated_at")


def _new(rule: AlertRule, met: Met) -> Alert:
    return Alert(
        rule=rule,
        subject=met.subject,
        message=met.message[:500],
        details={**met.details, "name": met.name, "url": met.url},
    )


def _brought_up_to_date(
    alerts: Sequence[Alert], met: Mapping[str, Met], now: datetime
) -> Iterator[Alert]:
    """Change alerts by what was read; yield those that differ. One that began in the future, as
    before a clock was set back, begins now: else it would not fire until then."""
    for alert in alerts:
        before = alert.message, alert.created_at
        alert.message = met[alert.subject].message[:500]
        alert.created_at = min(alert.created_at, now)
        if before != (alert.message, alert.created_at):
            yield alert


def _due(rule: AlertRule, alerts: Sequence[Alert], now: datetime) -> list[Alert]:
    """Return the alerts that fire now, and behind them those whose action is tried again. Those
    that were tried last come last, so that each gets its turn."""
    waits = timedelta(minutes=rule.for_minutes) if _kind(rule).waits else timedelta()
    due = [
        alert
        for alert in alerts
        if (alert.details.get(PENDING) if alert.fired_at else now - alert.created_at >= waits)
    ]
    return sorted(due, key=lambda alert: (alert.fired_at is not None, alert.updated_at))[:MOST]


# --- actions

# In the details of an alert: its action was not done, and is tried again while the alert is open.
PENDING = "action_pending"


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """What became of an action, as a sentence; `done`: it is not tried again."""

    text: str
    done: bool = True


def _fire(rule: AlertRule, due: Sequence[Alert], now: datetime) -> list[Alert]:
    """Do what the rule says. Return the alerts to notify of: those that fire now, and those whose
    action was done after all."""
    outcomes = _act(rule, due)
    news = []
    for alert in due:
        outcome = outcomes[alert.pk]
        if alert.fired_at is None or (outcome.done and outcome.text):
            news.append(alert)
        alert.fired_at = alert.fired_at or now
        alert.acted, alert.updated_at = outcome.text[:300], now
        alert.details.pop(PENDING, None)
        if not outcome.done:
            alert.details[PENDING] = True
    return news


def _act(rule: AlertRule, alerts: Sequence[Alert]) -> dict[UUID, ActionOutcome]:
    """Do the action for these alerts; return what became of it by the alert."""
    if rule.action == RuleAction.NOTIFY or not alerts:
        return {alert.pk: ActionOutcome("") for alert in alerts}
    outcomes: dict[UUID, ActionOutcome] = {}
    try:
        with transaction.atomic():
            _ACTIONS[RuleAction(rule.action)](rule, alerts, outcomes)
    except DatabaseError as error:  # as a deadlock: nothing was done
        log.warning("alert_action_failed", rule=rule.name, error=str(error)[:300])
        return {alert.pk: _failed(rule, error) for alert in alerts}
    return outcomes


def _failed(rule: AlertRule, error: BaseException | None) -> ActionOutcome:
    return ActionOutcome(
        f"The action {rule.action} failed, and is tried again: {error}", done=False
    )


def _cordon(rule: AlertRule, alerts: Sequence[Alert], outcomes: dict[UUID, ActionOutcome]) -> None:
    """Cordon nodes, but the last one that could take work. One that is cordoned keeps its reason. A
    cordon by its checks is followed by this one, if the alert is still open then; whom an admin
    uncordons stays in use."""
    of_nodes = [alert for alert in alerts if alert.subject != conditions.LOG_STORE]
    nodes = faults.lock_with_another(Q(name__in=[alert.subject for alert in of_nodes]))
    in_use = {n.name for n in nodes if n.state == NodeState.ONLINE and not n.cordoned}
    outcomes |= {alert.pk: ActionOutcome("There is no node to cordon.") for alert in alerts}
    chosen = []
    cordoned = {node.name: node for node in nodes if node.cordoned}
    for alert in of_nodes:
        if alert.subject in cordoned:
            temporary = cluster.cordon_is_temporary(cordoned[alert.subject])
            outcomes[alert.pk] = ActionOutcome("The node was cordoned before.", done=not temporary)
        elif in_use - {alert.subject}:
            in_use.discard(alert.subject)
            chosen.append(alert)
        else:
            text = "It was not cordoned, as no other node could take work."
            outcomes[alert.pk] = ActionOutcome(text, done=False)

    def cordon(some: Sequence[Alert]) -> None:
        for alert in some:
            cluster.cordon(None, alert.subject, f"Rule {rule.name}: {alert.message}"[:300])
            outcomes[alert.pk] = ActionOutcome("The node was cordoned.")

    one_by_one.change(chosen, cordon, partial(_leave_out, rule, outcomes))


def _stop(rule: AlertRule, alerts: Sequence[Alert], outcomes: dict[UUID, ActionOutcome]) -> None:
    minutes = max(rule.for_minutes, 1)

    def stop(some: Sequence[Alert]) -> None:
        why = {
            UUID(one.subject): messages.idle(
                one.details["gpus"], round(rule.threshold), minutes * 60
            )
            for one in some
        }
        stopped = idle.stop(why, rule=rule.name)
        for one in some:
            done = UUID(one.subject) in stopped
            text = "The job was stopped." if done else "The job had ended, or is exempt."
            outcomes[one.pk] = ActionOutcome(text)

    one_by_one.change(alerts, stop, partial(_leave_out, rule, outcomes))


def _leave_out(rule: AlertRule, outcomes: dict[UUID, ActionOutcome], alert: Alert) -> None:
    error = sys.exc_info()[1]
    log.warning(
        "alert_action_failed", rule=rule.name, subject=alert.subject, error=str(error)[:300]
    )
    outcomes[alert.pk] = _failed(rule, error)


_ACTIONS = {RuleAction.CORDON: _cordon, RuleAction.STOP: _stop}


# --- notifications


def _notify(rule: AlertRule, kind: str, alerts: Sequence[Alert], prefix: str = "") -> None:
    """Record an event for each recipient: those named, else all administrators."""
    if not alerts:
        return
    users = rule.recipients.filter(is_active=True).values_list("pk", flat=True)
    to = list(users) or list(
        User.objects.filter(is_superuser=True, is_active=True).values_list("pk", flat=True)
    )
    events = []
    for alert in alerts:
        acted = "" if prefix else alert.acted
        message = f"{prefix}{alert.message} {acted}".strip()
        events += [_event(pk, kind, rule, alert, message) for pk in to]
    Event.objects.bulk_create(events, batch_size=EVENTS)


def _event(user: int, kind: str, rule: AlertRule, alert: Alert, message: str) -> Event:
    name, url = f"{rule.name}: {alert.details['name']}", alert.details["url"]
    return event(
        Event.Subject.USER, user, kind, message, notify=True, name=name, url=url, rule=rule.name
    )


def delete_old() -> int:
    """Delete alerts that ended long ago."""
    return delete_in_batches(Alert.objects.filter(ended_at__lt=deletion_time() - KEPT))
