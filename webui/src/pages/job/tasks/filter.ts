import type { Task, TaskState } from "@/api/types";
import { taskName } from "@/format/names";

export interface TaskFilter {
  role: string | null;
  states: TaskState[];
  text: string;
}

export const NO_FILTER: TaskFilter = { role: null, states: [], text: "" };

/** Tasks of the role, in one of the states, whose name or node holds the text. */
export function chosen(tasks: Task[], { role, states, text }: TaskFilter): Task[] {
  const needle = text.trim().toLowerCase();
  return tasks.filter(
    (task) =>
      (role === null || task.role === role) &&
      (states.length === 0 || states.includes(task.state)) &&
      (!needle || `${taskName(task)} ${task.attempt?.node ?? ""}`.toLowerCase().includes(needle)),
  );
}
