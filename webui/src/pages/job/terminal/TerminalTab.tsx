import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { tasks } from "@/api/jobs";
import type { Job, Task } from "@/api/types";
import { taskName } from "@/format/names";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { CopyButton } from "@/ui/CopyButton";
import { SkeletonRows } from "@/ui/Skeleton";
import { TaskPicker } from "../logs/TaskPicker";
import { execCommand } from "../labels";
import { LEAVE_KEYS, TerminalScreen } from "./TerminalScreen";
import type { End } from "./ExecSession";
import css from "./Terminal.module.css";

/** A shell in a running task, for the job's owner and admins. */
export default function TerminalTab({ job, rank }: { job: Job; rank: number | undefined }) {
  const list = useQuery(tasks(job.id));
  if (!job.may_exec) {
    return (
      <EmptyState title="Not your job">
        A shell in its tasks is for its owner and for admins.
      </EmptyState>
    );
  }
  if (list.isPending) return <SkeletonRows rows={8} />;
  if (!list.data) {
    return <ErrorState error={list.error} what="list of tasks" retry={() => void list.refetch()} />;
  }
  return <Choice job={job} tasks={list.data} rank={rank} />;
}

/** Which task's shell: the one of the address, else the first that runs now, also after its end. */
function Choice({ job, tasks: all, rank }: { job: Job; tasks: Task[]; rank: number | undefined }) {
  const navigate = useNavigate({ from: "/jobs/$id" });
  const running = all.filter((task) => task.state === "RUNNING");
  const [first, setFirst] = useState<number>();
  if (first === undefined && running[0]) setFirst(running[0].rank);
  const chosen = all.find((task) => task.rank === (rank ?? first));
  if (!chosen) {
    return (
      <EmptyState title="No task runs now">
        A shell opens in the container of a running task.
      </EmptyState>
    );
  }
  const choose = (next: number | undefined) =>
    void navigate({ search: (old) => ({ ...old, rank: next }), replace: true });
  return (
    <Shell
      key={chosen.attempt?.id ?? chosen.id}
      job={job}
      task={chosen}
      picker={<TaskPicker tasks={running} rank={chosen.rank} onChoose={choose} all={false} />}
    />
  );
}

interface ShellProps {
  job: Job;
  task: Task;
  picker: React.ReactNode;
}

/** One shell; after its end the screen stays to be read, and another can be opened. */
function Shell({ job, task, picker }: ShellProps) {
  const [number, setNumber] = useState(0);
  const [end, setEnd] = useState<End | null>(null);
  const [open, setOpen] = useState(false);
  const tools = useRef<HTMLDivElement>(null);
  const { attempt } = task;
  const command = execCommand(job, task);
  if (!attempt) return <EmptyState title={`${taskName(task)} does not run`} />;
  return (
    <div className={css.pane}>
      <div className={css.tools} ref={tools} tabIndex={-1} role="group" aria-label="Shell">
        {picker}
        <span role="status" className={css.state} data-end={end?.kind}>
          {end ? endText(end) : open ? `Shell on ${attempt.node}` : "Connecting…"}
        </span>
        {end ? (
          <Button
            size="compact-xs"
            onClick={() => {
              setEnd(null);
              setOpen(false);
              setNumber(number + 1);
            }}
          >
            New shell
          </Button>
        ) : null}
        <span className={css.hint}>
          <span className={css.leave}>{LEAVE_KEYS} leaves the terminal</span>
          <code>{command}</code>
          <CopyButton text={command} label="Copy the command" />
        </span>
      </div>
      <TerminalScreen
        key={number}
        attempt={attempt.id}
        label={`Terminal of ${taskName(task)}; ${LEAVE_KEYS} leaves it`}
        onOpen={() => setOpen(true)}
        onEnd={setEnd}
        onLeave={() => tools.current?.focus()}
      />
    </div>
  );
}

export function endText(end: End): string {
  switch (end.kind) {
    case "exit":
      return `The shell ended with code ${end.code}.`;
    case "refused":
      return end.message;
    case "lost":
      return "The connection was lost.";
  }
}
