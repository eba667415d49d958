import { ActionIcon, Button, Switch } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { alertRules, alerts, deleteAlertRule, updateAlertRule } from "@/api/operations";
import type { components } from "@/api/schema";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { QueryState } from "@/ui/QueryState";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import { ACTIONS, AlertRuleForm, KINDS } from "./AlertRuleForm";
import css from "./HealthPage.module.css";

type Rule = components["schemas"]["AlertRule"];
type Alert = components["schemas"]["PlatformAlert"];

/** The rules by which administrators are alerted, and the alerts. */
export function AlertRules() {
  const list = useQuery(alertRules);
  const [writing, setWriting] = useState(false);
  return (
    <section aria-labelledby="rules" className={css.part}>
      <div className={css.titled}>
        <h2 id="rules">Alert rules</h2>
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => setWriting(true)}
        >
          New rule
        </Button>
      </div>
      <p className="dim">
        Looked at every minute. Recipients get alerts as they chose in their settings: in the page,
        by e-mail and by webhook.
      </p>
      <QueryState query={list} what="list of alert rules" rows={3}>
        {(data) => (data.length === 0 ? <p>There is no rule.</p> : <Rules rules={data} />)}
      </QueryState>
      <Raised />
      {writing ? <AlertRuleForm onClose={() => setWriting(false)} /> : null}
    </section>
  );
}

function Rules({ rules }: { rules: Rule[] }) {
  return (
    <div className={css.scroll} tabIndex={0} role="group" aria-label="Alert rules">
      <table className={css.table}>
        <thead>
          <tr>
            <th scope="col">Rule</th>
            <th scope="col">Fires when</th>
            <th scope="col">Then</th>
            <th scope="col">Notifies</th>
            <th scope="col">Enabled</th>
            <th scope="col">
              <span className="sr-only">Edit and delete</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rules.map((rule) => (
            <RuleRow key={rule.id} rule={rule} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function RuleRow({ rule }: { rule: Rule }) {
  const queries = useQueryClient();
  const [editing, setEditing] = useState(false);
  const changed = () => queries.invalidateQueries({ queryKey: alertRules.queryKey });
  const toggle = useMutation({
    mutationFn: (enabled: boolean) => updateAlertRule(rule.id, { enabled }),
    onError: (error) => notifyError(error, "It was not changed"),
    onSettled: changed,
  });
  const deletion = useMutation({
    mutationFn: () => deleteAlertRule(rule.id),
    onError: (error) => notifyError(error, "It was not deleted"),
    onSettled: changed,
  });
  const { label, unit, levels } = KINDS[rule.kind];
  const amount = levels?.[rule.threshold] ?? `${rule.threshold.toLocaleString("en")} ${unit}`;
  const duration = rule.for_minutes > 0 ? `, for ${rule.for_minutes} min` : "";
  return (
    <tr>
      <th scope="row">{rule.name}</th>
      <td className={css.condition}>
        {label}{" "}
        <span className="dim">
          ({amount}
          {duration})
        </span>
      </td>
      <td>{ACTIONS[rule.action]}</td>
      <td>{rule.recipients.join(", ") || "all administrators"}</td>
      <td>
        <Switch
          aria-label={`${rule.name} is enabled`}
          checked={toggle.isPending ? toggle.variables : rule.enabled}
          onChange={(event) => toggle.mutate(event.currentTarget.checked)}
        />
      </td>
      <td className={css.rowActions}>
        <ActionIcon size="sm" aria-label={`Edit ${rule.name}`} onClick={() => setEditing(true)}>
          <Icon name="edit" size={14} />
        </ActionIcon>
        {editing ? <AlertRuleForm rule={rule} onClose={() => setEditing(false)} /> : null}
        <DeleteIcon
          label={`Delete ${rule.name}`}
          busy={deletion.isPending}
          question={`Delete the rule ${rule.name}?`}
          explanation="Its alerts are deleted, too."
          verb="Delete"
          onConfirm={() => deletion.mutate()}
        />
      </td>
    </tr>
  );
}

/** The alerts that rules have raised, the newest first. */
function Raised() {
  const query = useQuery({ ...alerts, refetchInterval: 60_000 });
  if (!query.data?.length && !query.isError) return null;
  return (
    <>
      <h3 className={css.subtitle}>Alerts</h3>
      <QueryState query={query} what="list of alerts" rows={3}>
        {(data) => <AlertRows alerts={data} />}
      </QueryState>
    </>
  );
}

function AlertRows({ alerts }: { alerts: Alert[] }) {
  return (
    <div className={css.scroll} tabIndex={0} role="group" aria-label="Alerts">
      <table className={css.table}>
        <thead>
          <tr>
            <th scope="col">Since</th>
            <th scope="col">State</th>
            <th scope="col">Rule</th>
            <th scope="col">What</th>
          </tr>
        </thead>
        <tbody>
          {alerts.map((one) => (
            <tr key={one.id}>
              <td>
                <RelativeTime at={one.since} />
              </td>
              <td>{one.ended_at ? "over" : one.fired_at ? "fired" : "not fired yet"}</td>
              <td>{one.rule}</td>
              <td className={css.wrap}>
                {one.message} {one.acted}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
