import type { TaskState } from "@/api/types";
import { StateIcon } from "./StateIcon";
import css from "./StateBadge.module.css";

export function stateLabel(state: TaskState): string {
  return state.charAt(0) + state.slice(1).toLowerCase();
}

export function StateBadge({ state, large = false }: { state: TaskState; large?: boolean }) {
  return (
    <span className={css.badge} data-state={state} data-large={large || undefined}>
      <StateIcon state={state} size={large ? 18 : 15} />
      {stateLabel(state)}
    </span>
  );
}
