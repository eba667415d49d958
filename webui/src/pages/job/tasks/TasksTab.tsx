import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { tasks } from "@/api/jobs";
import type { Job, Task } from "@/api/types";
import { usePoll } from "@/live/live";
import { Blank, Failure } from "@/ui/Blank";
import { SkeletonRows } from "@/ui/Skeleton";
import { DataTable } from "@/ui/table/DataTable";
import { isOver } from "../words";
import { taskColumns } from "./columns";
import { chosen, NO_FILTER, type TaskFilter } from "./filter";
import { TaskDrawer } from "./TaskDrawer";
import { TaskFilters } from "./TaskFilters";
import { asksPorts, readyTasks } from "./words";

export function TasksTab({ job }: { job: Job }) {
  const poll = usePoll(job.tasks > 200 ? 10_000 : 4000);
  const list = useQuery({
    ...tasks(job.id),
    refetchInterval: isOver(job.state) ? false : poll,
  });
  const [filter, setFilter] = useState<TaskFilter>(NO_FILTER);
  const [shown, setShown] = useState<Task["id"] | null>(null);
  const ready = readyTasks(job, list.data ?? []);
  const columns = useMemo(() => taskColumns({ job, ready }, setShown), [job, ready]);
  const rows = useMemo(() => chosen(list.data ?? [], filter), [list.data, filter]);

  if (list.isPending) return <SkeletonRows rows={10} />;
  if (!list.data)
    return <Failure error={list.error} what="tasks" retry={() => void list.refetch()} />;
  return (
    <>
      {job.tasks > 1 ? (
        <TaskFilters job={job} tasks={list.data} filter={filter} onChange={setFilter} />
      ) : null}
      {rows.length === 0 ? (
        <Blank title="No task matches">Choose other states, or another role.</Blank>
      ) : (
        <DataTable
          label="Tasks"
          columns={columns}
          rows={rows}
          rowId={(task) => String(task.id)}
          minWidth={job.task_roles.some(asksPorts) ? 1120 : 1000}
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
