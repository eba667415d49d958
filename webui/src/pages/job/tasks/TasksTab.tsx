import { Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { tasks } from "@/api/jobs";
import type { Job, Task, TaskState } from "@/api/types";
import { isFinished } from "@/features/jobs/permissions";
import { usePoll } from "@/live/live";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { Icon } from "@/ui/Icon";
import { SkeletonRows } from "@/ui/Skeleton";
import { stateLabel } from "@/ui/StateBadge";
import { StateIcon } from "@/ui/StateIcon";
import { DataTable } from "@/ui/table/DataTable";
import { StaleNote } from "@/ui/StaleNote";
import { isPulling } from "../labels";
import { TaskDrawer } from "./TaskDrawer";
import { chosen, NO_FILTER, type TaskFilter } from "./filter";
import { readyTasks, requestsPorts } from "./labels";
import { taskColumns } from "./taskColumns";
import css from "./TasksTab.module.css";

export function TasksTab({ job }: { job: Job }) {
  const poll = usePoll(job.tasks > 200 ? 10_000 : 4000);
  const list = useQuery({
    ...tasks(job.id),
    refetchInterval: isFinished(job.state) ? false : poll,
  });
  const [filter, setFilter] = useState<TaskFilter>(NO_FILTER);
  const [shown, setShown] = useState<Task["id"] | null>(null);
  const ready = readyTasks(job, list.data ?? []);
  const pulling = list.data?.some(isPulling) ?? false;
  const columns = useMemo(
    () => taskColumns({ job, ready, pulling }, setShown),
    [job, ready, pulling],
  );
  const rows = useMemo(() => chosen(list.data ?? [], filter), [list.data, filter]);

  if (list.isPending) return <SkeletonRows rows={10} />;
  if (!list.data)
    return <ErrorState error={list.error} what="tasks" retry={() => void list.refetch()} />;
  return (
    <>
      <StaleNote query={list} what="tasks" />
      {job.tasks > 1 ? (
        <TaskFilters job={job} tasks={list.data} filter={filter} onChange={setFilter} />
      ) : null}
      {rows.length === 0 ? (
        <EmptyState title="No task matches">Choose other states, or another role.</EmptyState>
      ) : (
        <DataTable
          label="Tasks"
          columns={columns}
          rows={rows}
          rowId={(task) => String(task.id)}
          file={{ rows: `tasks-of-${job.name}` }}
          minWidth={job.task_roles.some(requestsPorts) ? 1120 : 1000}
          virtual
        />
      )}
      <TaskDrawer
        job={job}
        task={list.data.find((task) => task.id === shown) ?? null}
        onClose={() => setShown(null)}
      />
    </>
  );
}

interface Props {
  job: Job;
  tasks: Task[];
  filter: TaskFilter;
  onChange: (filter: TaskFilter) => void;
}

function TaskFilters({ job, tasks, filter, onChange }: Props) {
  const counts = Map.groupBy(tasks, (task) => task.state);
  function toggle(state: TaskState) {
    const states = filter.states.includes(state)
      ? filter.states.filter((each) => each !== state)
      : [...filter.states, state];
    onChange({ ...filter, states });
  }
  return (
    <div className={css.bar} role="search" aria-label="Filter tasks">
      <TextInput
        type="search"
        aria-label="Search tasks by name or node"
        placeholder="Task or node  ( / )"
        leftSection={<Icon name="search" size={14} />}
        value={filter.text}
        onChange={(event) => onChange({ ...filter, text: event.currentTarget.value })}
        w={200}
      />
      {job.task_roles.length > 1 ? (
        <Select
          aria-label="Role"
          placeholder="Any role"
          data={job.task_roles.map((role) => role.name)}
          value={filter.role}
          onChange={(role) => onChange({ ...filter, role })}
          clearable
          w={150}
        />
      ) : null}
      <div className={css.states} role="group" aria-label="States">
        {[...counts].map(([state, some]) => (
          <button
            key={state}
            type="button"
            className={css.state}
            aria-pressed={filter.states.includes(state)}
            onClick={() => toggle(state)}
          >
            <StateIcon state={state} size={13} />
            {stateLabel(state)}
            <span className="num dim">{some.length.toLocaleString("en")}</span>
          </button>
        ))}
      </div>
    </div>
  );
}
