import { Button, Loader, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { nodeForecast, type NodeAction } from "@/api/cluster";
import type { Node, NodeForecast } from "@/api/types";
import { Dialog } from "@/ui/Dialog";
import { ReadNote } from "@/ui/ReadNote";
import { DrainImpact } from "./DrainImpact";
import css from "./DrainDialog.module.css";

interface Props {
  node: Node;
  action: NodeAction | null;
  onClose: () => void;
  onConfirm: (action: NodeAction, reason: string) => void;
}

const ACTION_LABELS: Record<NodeAction, string> = {
  drain: "Drain",
  cordon: "Cordon",
  remove: "Remove",
};

const ACTION_DESCRIPTIONS: Record<NodeAction, string> = {
  drain:
    "Nothing new is placed here, and its jobs are asked to go: they save what they can, end, and restart from their old place in the queue. No retry is counted.",
  cordon: "Nothing new is placed here; what runs goes on to its end.",
  remove:
    "Its credential stops working at once. This is possible only while nothing runs on it: drain it first.",
};

/** Asks before a node is taken out of use, with a forecast of who would notice. */
export function DrainDialog({ node, action, onClose, onConfirm }: Props) {
  return (
    <Dialog
      opened={action !== null}
      onClose={onClose}
      title={action ? `${ACTION_LABELS[action]} ${node.name}?` : ""}
      size={560}
    >
      {action ? (
        <DrainQuestion node={node} action={action} onClose={onClose} onConfirm={onConfirm} />
      ) : null}
    </Dialog>
  );
}

function DrainQuestion({ node, action, onClose, onConfirm }: Props & { action: NodeAction }) {
  const forecast = useQuery(nodeForecast(node.name, action));
  const [reason, setReason] = useState("");
  const blocked = action === "remove" && (forecast.data?.jobs.length ?? 0) > 0;
  return (
    <div className={css.question}>
      <p className={css.about}>{ACTION_DESCRIPTIONS[action]}</p>
      {forecast.isPending ? <Loader size="sm" type="dots" /> : null}
      <ReadNote query={forecast} what="list of the jobs that are affected" />
      {forecast.data ? (
        <DrainImpact forecast={forecast.data} title={titleOf(forecast.data)} />
      ) : null}
      {action === "remove" ? null : (
        <TextInput
          label="Reason"
          description="Shown with the node and in its events"
          placeholder="Optional"
          maxLength={300}
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
      )}
      <div className={css.actions}>
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <Button
          color="red"
          autoContrast={false}
          data-autofocus
          disabled={forecast.isPending || blocked}
          onClick={() => {
            onConfirm(action, reason.trim());
            onClose();
          }}
        >
          {ACTION_LABELS[action]} {node.name}
        </Button>
      </div>
    </div>
  );
}

function titleOf({ jobs }: NodeForecast): string {
  const what = jobs[0]?.what;
  if (!what) return "No job runs here.";
  const [one, many] = {
    preempted: ["job would restart from the queue", "jobs would restart from the queue"],
    "runs on": ["job runs here and goes on", "jobs run here and go on"],
    lost: ["job still runs here", "jobs still run here"],
  }[what] as [string, string];
  return `${jobs.length} ${jobs.length === 1 ? one : many}`;
}
