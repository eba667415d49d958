import { MultiSelect, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { users } from "@/api/admin";
import { isApiError } from "@/api/errors";
import { alertRules, createAlertRule, updateAlertRule } from "@/api/operations";
import type { components } from "@/api/schema";
import { AmountField } from "@/features/job-file/AmountField";
import { FormDialog } from "@/ui/FormDialog";
import { unreadText } from "@/ui/ReadNote";

type Rule = components["schemas"]["AlertRule"];
type Kind = Rule["kind"];
type Action = Rule["action"];

interface About {
  label: string;
  unit: string;
  /** What a threshold means, where a number with its unit does not say it. */
  levels?: Record<number, string>;
  initial: number;
  actions: Action[];
}

export const KINDS: Record<Kind, About> = {
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
  doctor: {
    label: "The doctor finds something",
    unit: "1: errors; 2: warnings, too",
    levels: { 1: "errors", 2: "errors and warnings" },
    initial: 2,
    actions: ["notify"],
  },
};
export const ACTIONS: Record<Action, string> = {
  notify: "notify",
  cordon: "notify, and cordon the node",
  stop: "notify, and stop the job",
};

const FIELDS = ["name", "kind", "threshold", "for_minutes", "action", "recipients"];
const KIND_OPTIONS = Object.entries(KINDS).map(([value, { label }]) => ({ value, label }));

interface Props {
  /** The rule to change; a new one without it. */
  rule?: Rule;
  onClose: () => void;
}

const CODES: Record<string, string> = { name_taken: "name" };

/** Which field the server refused, and why. */
function refusals(error: unknown): Record<string, string> {
  if (!isApiError(error)) return {};
  const field = CODES[error.code] ?? error.details["field"];
  return typeof field === "string" ? { [field]: error.message } : error.fields;
}

/** Creates an alert rule, or changes one; what the server refuses stands at its field. */
export function AlertRuleForm({ rule, onClose }: Props) {
  const queries = useQueryClient();
  const people = useQuery(users);
  const [name, setName] = useState(rule?.name ?? "");
  const [kind, setKind] = useState<Kind>(rule?.kind ?? "idle_gpus");
  const [threshold, setThreshold] = useState(rule?.threshold ?? KINDS[kind].initial);
  const [minutes, setMinutes] = useState(rule?.for_minutes ?? 30);
  const [action, setAction] = useState<Action>(rule?.action ?? "notify");
  const [recipients, setRecipients] = useState<string[]>(rule?.recipients ?? []);
  const saving = useMutation({
    mutationFn: () => {
      const body = {
        name: name.trim(),
        threshold,
        for_minutes: minutes,
        action,
        recipients,
      };
      return rule ? updateAlertRule(rule.id, body) : createAlertRule({ ...body, kind });
    },
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
  const wrong = refusals(saving.error);
  const atField = Object.keys(wrong).some((field) => FIELDS.includes(field));
  return (
    <FormDialog
      open
      title={rule ? `Alert rule ${rule.name}` : "New alert rule"}
      verb={rule ? "Save" : "Create"}
      mutation={{ ...saving, error: atField ? null : saving.error }}
      onClose={onClose}
    >
      <TextInput
        label="Name"
        required
        withAsterisk={false}
        data-autofocus
        maxLength={63}
        value={name}
        error={wrong["name"]}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Select
        label="Fires when"
        data={KIND_OPTIONS}
        value={kind}
        onChange={choose}
        allowDeselect={false}
        disabled={rule !== undefined}
        error={wrong["kind"]}
      />
      <AmountField
        label={`Threshold (${KINDS[kind].unit})`}
        value={threshold}
        onChange={setThreshold}
        allowNegative={false}
        error={wrong["threshold"]}
      />
      <AmountField
        label="For so many minutes"
        min={0}
        value={minutes}
        onChange={setMinutes}
        allowDecimal={false}
        allowNegative={false}
        error={wrong["for_minutes"]}
      />
      <Select
        label="Then"
        data={KINDS[kind].actions.map((value) => ({ value, label: ACTIONS[value] }))}
        value={action}
        onChange={(value) => setAction(value as Action)}
        error={wrong["action"]}
        allowDeselect={false}
      />
      <MultiSelect
        label="Notify"
        description="None chosen: all administrators"
        data={(people.data ?? []).map(({ username }) => username)}
        value={recipients}
        onChange={setRecipients}
        error={wrong["recipients"] ?? unreadText(people, "list of users")}
        searchable
        limit={50}
        clearable
      />
    </FormDialog>
  );
}
