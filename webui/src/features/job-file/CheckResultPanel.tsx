import { Checkbox } from "@mantine/core";
import { errorMessage } from "@/api/errors";
import type { CheckResult, JobFileError } from "@/api/types";
import { pluralize } from "@/format/numbers";
import { Icon } from "@/ui/Icon";
import { Section } from "@/ui/Section";
import { WaitReason } from "@/features/jobs/WaitReason";
import { losesStorage, type CheckOutcome } from "./useSubmit";
import checkCss from "@/ui/checkResult.module.css";
import css from "./CheckResultPanel.module.css";

interface Props {
  verdict: CheckOutcome | null;
  failure: unknown;
  /** Whether the job is to run although a storage of it is not mounted. */
  lossAccepted?: boolean;
  onAcceptLoss?: (yes: boolean) => void;
  onGoTo: (line: number, column: number) => void;
}

/** What the server says of the job as it is written now. */
export function CheckResultPanel({ verdict, failure, onGoTo, ...loss }: Props) {
  if (failure) {
    return (
      <Section title="Not submitted">
        <p className={checkCss.bad} role="alert">
          {errorMessage(failure)}
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
    <Accepted result={result} onGoTo={onGoTo} {...loss} />
  ) : (
    <Section title={pluralize(result.errors.length, "mistake")}>
      <ErrorList role="alert" tone="bad" places={result.errors} onGoTo={onGoTo} />
    </Section>
  );
}

type AcceptedProps = Omit<Props, "verdict" | "failure"> & { result: CheckResult };

function Accepted({ result, onGoTo, lossAccepted = false, onAcceptLoss }: AcceptedProps) {
  const { summary, forecast, notes } = result;
  return (
    <Section title="Check">
      <p className={checkCss.good} role="status">
        <Icon name="check" size={14} />{" "}
        {losesStorage(result) ? "It would run, but without its storage" : "No problems found"}
      </p>
      {summary ? (
        <p className={css.line}>
          <b>{summary.name}</b> asks {summary.virtual_cluster} for{" "}
          {pluralize(summary.tasks, "task")}{" "}
          {summary.gpus === 0 ? "without GPUs" : `with ${pluralize(summary.gpus, "GPU")} in all`}.
        </p>
      ) : null}
      {forecast ? (
        <div className={css.forecast}>
          <WaitReason reason={forecast} vc={summary?.virtual_cluster ?? "Your virtual cluster"} />
        </div>
      ) : null}
      {notes.length > 0 ? (
        <div className={css.notes}>
          <ErrorList tone="calm" places={notes} onGoTo={onGoTo} />
        </div>
      ) : null}
      {losesStorage(result) ? (
        <div className={css.notes} role="alert">
          <p className={checkCss.bad}>
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

interface ErrorListProps {
  role?: "alert";
  tone: "bad" | "calm";
  places: JobFileError[];
  onGoTo: Props["onGoTo"];
}

/** What is said of the file, each leading to its line. */
function ErrorList({ role, tone, places, onGoTo }: ErrorListProps) {
  return (
    <ul className={checkCss.errors} role={role}>
      {places.map((place, number) => (
        <li key={number}>
          <button
            type="button"
            className={checkCss.error}
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
