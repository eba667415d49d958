import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import {
  cancelMaintenance,
  checkNode,
  MAINTENANCE,
  maintenanceOf,
  nodeChecks,
  NODES,
  planMaintenance,
} from "@/api/cluster";
import type { Maintenance, Node, NodeCheck } from "@/api/types";
import { formatDateTime } from "@/format/time";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { isUnread, ReadNote } from "@/ui/ReadNote";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import css from "./NodeMaintenance.module.css";

const EMPTY = { start: "", end: "", reason: "" };

/** When the node is not used. Administrators plan and cancel windows here. */
export function NodeMaintenance({ node, canPlan }: { node: Node; canPlan: boolean }) {
  const query = useQuery(maintenanceOf(node.name));
  const { data: windows = [] } = query;
  if (!query.data && !isUnread(query)) return null;
  if (query.data?.length === 0 && !canPlan) return null;
  return (
    <section aria-label="Maintenance">
      <h3 className={css.title}>Maintenance</h3>
      <ReadNote query={query} what="list of its maintenance" />
      {windows.length > 0 ? (
        <ul className={css.windows}>
          {windows.map((window) => (
            <Window key={window.id} window={window} canCancel={canPlan} />
          ))}
        </ul>
      ) : null}
      {canPlan ? <PlanForm node={node} /> : null}
    </section>
  );
}

function Window({ window, canCancel }: { window: Maintenance; canCancel: boolean }) {
  const renew = useRenew();
  const cancelling = useMutation({
    mutationFn: () => cancelMaintenance(window.id),
    onSuccess: renew,
    onError: (error) => notifyError(error),
  });
  const isOn = window.state === "ACTIVE";
  return (
    <li>
      <span>
        {formatDateTime(window.starts_at)} to {formatDateTime(window.ends_at)}
        <span className="dim"> {isOn ? "on now" : "planned"}</span>
        {window.reason ? <> · {window.reason}</> : null}
      </span>
      {canCancel ? (
        <ConfirmButton
          size="xs"
          question={isOn ? "End this maintenance?" : "Cancel this maintenance?"}
          explanation="The node is used as before."
          verb={isOn ? "End it" : "Cancel it"}
          busy={cancelling.isPending}
          onConfirm={() => cancelling.mutate()}
        >
          {isOn ? "End" : "Cancel"}
        </ConfirmButton>
      ) : null}
    </li>
  );
}

function PlanForm({ node }: { node: Node }) {
  const renew = useRenew();
  const [draft, setDraft] = useState(EMPTY);
  const planning = useMutation({
    mutationFn: () =>
      planMaintenance(node.name, new Date(draft.start), new Date(draft.end), draft.reason.trim()),
    onSuccess: async () => {
      await renew();
      setDraft(EMPTY);
    },
    onError: (error) => notifyError(error, "The maintenance was not planned"),
  });
  const isComplete = draft.start !== "" && draft.end > draft.start;

  function plan(event: FormEvent) {
    event.preventDefault();
    if (isComplete) planning.mutate();
  }

  return (
    <form className={css.form} onSubmit={plan}>
      <TextInput
        size="xs"
        type="datetime-local"
        label="From"
        value={draft.start}
        onChange={(event) => setDraft({ ...draft, start: event.currentTarget.value })}
      />
      <TextInput
        size="xs"
        type="datetime-local"
        label="Until"
        value={draft.end}
        onChange={(event) => setDraft({ ...draft, end: event.currentTarget.value })}
      />
      <TextInput
        size="xs"
        label="Reason"
        maxLength={300}
        value={draft.reason}
        onChange={(event) => setDraft({ ...draft, reason: event.currentTarget.value })}
      />
      <Button type="submit" variant="default" disabled={!isComplete} loading={planning.isPending}>
        Plan
      </Button>
    </form>
  );
}

const MOST_CHECKS = 5;

/** What the node found when it checked itself, newest first. */
export function NodeChecks({ node, canCheck }: { node: Node; canCheck: boolean }) {
  const query = useQuery(nodeChecks(node.name));
  const { data: checks = [] } = query;
  const renew = useRenew();
  const checking = useMutation({
    mutationFn: () => checkNode(node.name),
    onSuccess: renew,
    onError: (error) => notifyError(error),
  });
  if (!query.data && !isUnread(query)) return null;
  if (query.data?.length === 0 && !canCheck) return null;
  return (
    <section aria-label="Checks">
      <h3 className={css.title}>Checks</h3>
      <ReadNote query={query} what="list of its checks" />
      {checks.length > 0 ? (
        <ul className={css.checks}>
          {checks.slice(0, MOST_CHECKS).map((check) => (
            <Check key={check.id} check={check} />
          ))}
        </ul>
      ) : null}
      {canCheck ? (
        <ConfirmButton
          size="xs"
          question={`Check ${node.name}?`}
          explanation="It is cordoned until no task is there and it has passed: disk, GPUs and network."
          verb="Check it"
          busy={checking.isPending}
          onConfirm={() => checking.mutate()}
        >
          Check
        </ConfirmButton>
      ) : null}
    </section>
  );
}

const CHECK_LABELS: Record<NodeCheck["state"], string> = {
  WAITING: "waits",
  PASSED: "passed",
  FAILED: "failed",
};

function Check({ check }: { check: NodeCheck }) {
  const failed = check.results.filter((result) => !result.passed);
  return (
    <li>
      <RelativeTime at={check.finished_at ?? check.due_at} />
      <div>
        <b>{CHECK_LABELS[check.state]}</b> <span className="dim">{check.cause}</span>
        {failed.map((result) => (
          <p key={result.name} className={css.failed}>
            {result.name}: {result.message}
          </p>
        ))}
      </div>
    </li>
  );
}

function useRenew() {
  const queries = useQueryClient();
  return async () => {
    await queries.invalidateQueries({ queryKey: [MAINTENANCE] });
    await queries.invalidateQueries({ queryKey: NODES });
  };
}
