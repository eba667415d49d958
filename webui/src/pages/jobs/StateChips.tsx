import type { JobState } from "@/api/types";
import { stateWord } from "@/ui/StateBadge";
import { StateIcon } from "@/ui/StateIcon";
import { JOB_STATES } from "./search";
import css from "./StateChips.module.css";

interface Props {
  chosen: JobState[];
  onChange: (states: JobState[]) => void;
}

/** Any number of states; none chosen means all. */
export function StateChips({ chosen, onChange }: Props) {
  function toggle(state: JobState) {
    onChange(chosen.includes(state) ? chosen.filter((each) => each !== state) : [...chosen, state]);
  }
  return (
    <div className={css.chips} role="group" aria-label="States">
      {JOB_STATES.map((state) => (
        <button
          key={state}
          type="button"
          className={css.chip}
          aria-pressed={chosen.includes(state)}
          onClick={() => toggle(state)}
        >
          <StateIcon state={state} size={13} />
          {stateWord(state)}
        </button>
      ))}
    </div>
  );
}
