import { Button, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { move, tasks as tasksQuery } from "@/api/jobs";
import type { Job } from "@/api/types";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { ReadNote } from "@/ui/ReadNote";
import { useJobChange } from "./useJobChange";

const WHAT_FOLLOWS =
  "The whole job ends as if it were preempted: it saves its work if it handles its checkpoint signal. It then starts again from its old place in the queue, on other nodes if there are any; this does not count as a retry.";

function canMove(job: Job): boolean {
  return job.may_stop && job.state === "RUNNING" && !job.preempting;
}

function useMove(job: Job) {
  return useJobChange(
    (node: string) => move(job.id, node),
    ({ name }) => `${name} starts again on other nodes`,
  );
}

/** Moves a job off one node, beside the sentence that blames the node. */
export function MoveButton({ job, node }: { job: Job; node: string }) {
  const moving = useMove(job);
  if (!canMove(job)) return null;
  return (
    <ConfirmButton
      size="compact-sm"
      question={`Move ${job.name} off ${node}?`}
      explanation={WHAT_FOLLOWS}
      verb="Move the job"
      busy={moving.isPending}
      onConfirm={() => moving.mutate(node)}
    >
      Move off {node}
    </ConfirmButton>
  );
}

/** Moves a job off one of its nodes, which is chosen in a dialog. */
export function MoveDialogButton({ job }: { job: Job }) {
  const [open, setOpen] = useState(false);
  if (!canMove(job)) return null;
  return (
    <>
      <Button
        variant="default"
        leftSection={<Icon name="undo" size={14} />}
        onClick={() => setOpen(true)}
      >
        Move
      </Button>
      {open ? <MoveDialog job={job} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

function MoveDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const query = useQuery(tasksQuery(job.id));
  const { data: tasks = [] } = query;
  const [chosen, setChosen] = useState<string | null>(null);
  const moving = useMove(job);
  const nodes = [
    ...new Set(tasks.flatMap(({ attempt }) => (attempt ? [attempt.node] : []))),
  ].sort();
  const node = chosen ?? nodes[0] ?? null;
  return (
    <FormDialog
      open
      title={`Move ${job.name} off a node`}
      verb="Move the job"
      mutation={{
        ...moving,
        mutate: () => node && moving.mutate(node, { onSuccess: onClose }),
      }}
      onClose={onClose}
    >
      <ReadNote query={query} what="list of its nodes" />
      <Select
        label="Node"
        data={nodes}
        value={node}
        onChange={setChosen}
        allowDeselect={false}
        searchable={nodes.length > 8}
      />
      <p className="dim">{WHAT_FOLLOWS}</p>
    </FormDialog>
  );
}
