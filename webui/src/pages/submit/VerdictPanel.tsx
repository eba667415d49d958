import { Checkbox } from "@mantine/core";
import { explain } from "@/api/errors";
import type { CheckResult, SpecError } from "@/api/types";
import { count } from "@/format/size";
import { Icon } from "@/ui/Icon";
import { Section } from "@/ui/Section";
import { Why } from "@/ui/why/Why";
import { losesStorage, type Verdict } from "./useSubmit";
import css from "./VerdictPanel.module.css";

interface Props {
  verdict: Verdict | null;
  failure: unknown;
  /** Whether the job is to run although a storage of it is not mounted. */
  lossAccepted?: boolean;
  onAcceptLoss?: (yes: boolean) => void;
  onGoTo: (line: number, column: number) => void;
}

/** What the server says of the job as it is written now. */
export function VerdictPanel({ verdict, failure, onGoTo, ...loss }: Props) {
  if (failure) {
    return (
      <Section title="Not submitted">
        <p className={css.bad} role="alert">
          {explain(failure)}
        </p>
      </Section>
    );
  }
  if (!verdict) {
    return (
      <Section title="Check">
        <p className="dim">
          The editor marks mistakes as you type. “Check” asks the server for the rest: whether your
          virtual cluster can ever hold this job, and when it would start.
        </p>
      </Section>
    );
  }
  const { result } = verdict;
  return result.valid ? (
    <Good result={result} onGoTo={onGoTo} {...loss} />
  ) : (
    <Section title={count(result.errors.length, "mistake")}>
      <Places role="alert" tone="bad" places={result.errors} onGoTo={onGoTo} />
    </Section>
  );
}

type GoodProps = Omit<Props, "verdict" | "failure"> & { result: CheckResult };

function Good({ result, onGoTo, lossAccepted = false, onAcceptLoss }: GoodProps) {
  const { summary, forecast, notes } = result;
  return (
    <Section title="Check">
      <p className={css.good} role="status">
        <Icon name="check" size={14} />{" "}
        {losesStorage(result)
          ? "It would run, but without its storage"
          : "Nothing is wrong with it"}
      </p>
      {summary ? (
        <p className={css.line}>
          <b>{summary.name}</b> asks {summary.virtual_cluster} for {count(summary.gpus, "GPU")} in{" "}
          {count(summary.tasks, "task")}.
        </p>
      ) : null}
      {forecast ? (
        <div className={css.forecast}>
          <Why reason={forecast} vc={summary?.virtual_cluster ?? "Your virtual cluster"} />
        </div>
      ) : null}
      {notes.length > 0 ? (
        <div className={css.notes}>
          <Places tone="calm" places={notes} onGoTo={onGoTo} />
        </div>
      ) : null}
      {losesStorage(result) ? (
        <div className={css.notes} role="alert">
          <p className={css.bad}>
            It is submitted only when you confirm that what it writes to that storage may be lost.
          </p>
          <Checkbox
            mt={6}
            label="Submit although its storage is not mounted"
            checked={lossAccepted}
            onChange={(event) => onAcceptLoss?.(event.currentTarget.checked)}
          />
        </div>
      ) : null}
    </Section>
  );
}

interface PlacesProps {
  role?: "alert";
  tone: "bad" | "calm";
  places: SpecError[];
  onGoTo: Props["onGoTo"];
}

/** What is said of the file, each leading to its line. */
function Places({ role, tone, places, onGoTo }: PlacesProps) {
  return (
    <ul className={css.errors} role={role}>
      {places.map((place, number) => (
        <li key={number}>
          <button
            type="button"
            className={css.error}
            data-tone={tone}
            onClick={() => onGoTo(place.line ?? 1, place.column ?? 1)}
          >
            <span className={css.place}>
              {place.line === null ? "Whole file" : `Line ${place.line}`}
              {place.path ? <code>{place.path}</code> : null}
            </span>
            {place.message}
          </button>
        </li>
      ))}
    </ul>
  );
}
