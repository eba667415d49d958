import { Select } from "@mantine/core";
import { useMemo } from "react";
import type { Task } from "@/api/types";
import { taskName } from "@/format/names";

interface Props {
  tasks: Task[];
  rank?: number;
  onChoose: (rank: number | undefined) => void;
  /** Whether all tasks together can be chosen. */
  all?: boolean;
}

export function TaskPicker({ tasks, rank, onChoose, all = true }: Props) {
  const data = useMemo(
    () => [
      ...(all ? [{ value: "", label: "All tasks" }] : []),
      ...tasks.map((task) => ({ value: String(task.rank), label: taskName(task) })),
    ],
    [tasks, all],
  );
  return (
    <Select
      aria-label={all ? "Whose log" : "Task"}
      data={data}
      value={rank === undefined ? "" : String(rank)}
      onChange={(value) => onChoose(value ? Number(value) : undefined)}
      allowDeselect={false}
      searchable={tasks.length > 12}
      limit={100}
      nothingFoundMessage="No such task"
      disabled={tasks.length < 2}
      w={150}
    />
  );
}
