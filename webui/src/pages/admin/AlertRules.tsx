import { Button, MultiSelect, NumberInput, Select, Switch, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { users } from "@/api/admin";
import {
  alertRules,
  alerts,
  createAlertRule,
  deleteAlertRule,
  updateAlertRule,
} from "@/api/operations";
import type { components } from "@/api/schema";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { QueryState } from "@/ui/QueryState";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import css from "./HealthPage.module.css";

type Rule = components["schemas"]["AlertRule"];
type Kind = Rule["kind"];
type Action = Rule["action"];

interface About {
  label: string;
  unit: string;
  initial: number;
  actions: Action[];
}

const KINDS: Record<Kind, About> = {
  idle_gpus: {
    label: "A job uses none of its GPUs",
    unit: "% utilisation at most",
    initial: 5,
    actions: ["notify", "stop"],
  },
  bad_node: {
    label: "GPUs of a node are bad",
    unit: "bad GPUs",
    initial: 1,
    actions: ["notify", "cordon"],
  },
  node_away: {
    label: "A node is away",
    unit: "minutes",
    initial: 10,
    actions: ["notify", "cordon"],
  },
  stuck_job: {
    label: "A job does not begin or does not end",
    unit: "minutes",
    initial: 60,
    actions: ["notify"],
  },
  full_disk: {
    label: "A disk is full",
    unit: "% used",
    initial: 90,
    actions: ["notify", "cordon"],
  },
  certificate: {
    label: "A certificate expires",
    unit: "days left",
    initial: 21,
    actions: ["notify"],
  },
};
const ACTIONS: Record<Action, string> = {
  notify: "notify",
  cordon: "notify, and cordon the node",
  stop: "notify, and stop the job",
};

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
      {writing ? <NewRule onClose={() => setWriting(false)} /> : null}
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
              <span className="sr-only">Delete</span>
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
  const { label, unit } = KINDS[rule.kind];
  const duration = rule.for_minutes > 0 ? `, for ${rule.for_minutes} min` : "";
  return (
    <tr>
      <th scope="row">{rule.name}</th>
      <td>
        {label}{" "}
        <span className="dim">
          ({rule.threshold.toLocaleString("en")} {unit}
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
      <td>
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
  const { data } = useQuery({ ...alerts, refetchInterval: 60_000 });
  if (!data || data.length === 0) return null;
  return (
    <>
      <h3 className={css.subtitle}>Alerts</h3>
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
            {data.map((one) => (
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
    </>
  );
}

const KIND_OPTIONS = Object.entries(KINDS).map(([value, { label }]) => ({ value, label }));

function NewRule({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const { data: people } = useQuery(users);
  const [name, setName] = useState("");
  const [kind, setKind] = useState<Kind>("idle_gpus");
  const [threshold, setThreshold] = useState<number | string>(KINDS.idle_gpus.initial);
  const [minutes, setMinutes] = useState<number | string>(30);
  const [action, setAction] = useState<Action>("notify");
  const [recipients, setRecipients] = useState<string[]>([]);
  const creation = useMutation({
    mutationFn: () =>
      createAlertRule({
        name: name.trim(),
        kind,
        threshold: Number(threshold),
        for_minutes: Number(minutes),
        action,
        recipients,
      }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: alertRules.queryKey });
      onClose();
    },
  });
  function choose(value: string | null) {
    const chosen = value as Kind;
    setKind(chosen);
    setThreshold(KINDS[chosen].initial);
    setAction("notify");
  }
  return (
    <FormDialog open title="New alert rule" verb="Create" mutation={creation} onClose={onClose}>
      <TextInput
        label="Name"
        required
        withAsterisk={false}
        data-autofocus
        maxLength={63}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Select
        label="Fires when"
        data={KIND_OPTIONS}
        value={kind}
        onChange={choose}
        allowDeselect={false}
      />
      <NumberInput
        label={`Threshold (${KINDS[kind].unit})`}
        value={threshold}
        onChange={setThreshold}
      />
      <NumberInput
        label="For so many minutes"
        min={0}
        value={minutes}
        onChange={setMinutes}
        allowDecimal={false}
      />
      <Select
        label="Then"
        data={KINDS[kind].actions.map((value) => ({ value, label: ACTIONS[value] }))}
        value={action}
        onChange={(value) => setAction(value as Action)}
        allowDeselect={false}
      />
      <MultiSelect
        label="Notify"
        description="None chosen: all administrators"
        data={(people ?? []).map(({ username }) => username)}
        value={recipients}
        onChange={setRecipients}
        searchable
        limit={50}
        clearable
      />
    </FormDialog>
  );
}
