import type { TaskState } from "@/api/types";
import css from "./StateIcon.module.css";

const CELL = "M8 1 14.1 4.5v7L8 15 1.9 11.5v-7Z";

const MARKS: Partial<Record<TaskState, string>> = {
  SUCCEEDED: "M5.2 8.2 7.2 10.2 10.9 6.2",
  FAILED: "M5.9 5.9l4.2 4.2M10.1 5.9 5.9 10.1",
  STOPPED: "M6.2 6.2h3.6v3.6H6.2Z",
  STOPPING: "M6.2 6.2h3.6v3.6H6.2Z",
  LOST: "M6.5 6.4c.2-1.9 3.2-1.7 3.1.1-.1 1.2-1.5 1.2-1.5 2.3M8.1 10.8v.1",
};

/** A cell of the comb: hollow before it starts, glowing while it runs, sealed when it is over.
 * The states differ in shape as well as in colour. */
export function StateIcon({ state, size = 16 }: { state: TaskState; size?: number }) {
  const mark = MARKS[state];
  return (
    <svg
      className={css.icon}
      data-state={state}
      width={size}
      height={size}
      viewBox="0 0 16 16"
      aria-hidden="true"
    >
      <path className={css.cell} d={CELL} />
      {mark ? <path className={css.mark} d={mark} /> : null}
      {state === "RUNNING" || state === "PREPARING" ? (
        <circle className={css.core} cx="8" cy="8" r="2.6" />
      ) : null}
    </svg>
  );
}
