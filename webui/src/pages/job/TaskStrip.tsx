import type { Job, TaskState } from "@/api/types";
import { stateWord } from "@/ui/StateBadge";
import { taskStates } from "./words";
import css from "./TaskStrip.module.css";

const ORDER: TaskState[] = [
  "SUCCEEDED",
  "RUNNING",
  "PREPARING",
  "ASSIGNED",
  "WAITING",
  "STOPPING",
  "STOPPED",
  "LOST",
  "FAILED",
];

/** The states of all tasks as one strip. */
export function TaskStrip({ job }: { job: Job }) {
  const states = taskStates(job);
  const shown = ORDER.filter((state) => states[state]);
  const words = shown.map((state) => `${states[state]} ${stateWord(state).toLowerCase()}`);
  return (
    <span className={css.tasks}>
      <span className="num">{job.tasks.toLocaleString("en")}</span>
      <span className={css.strip} role="img" aria-label={words.join(", ")} title={words.join(", ")}>
        {shown.map((state) => (
          <span key={state} data-state={state} style={{ flexGrow: states[state] }} />
        ))}
      </span>
    </span>
  );
}
