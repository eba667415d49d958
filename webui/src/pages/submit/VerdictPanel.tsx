import { explain } from "@/api/errors";
import type { CheckResult, SpecError } from "@/api/types";
import { count } from "@/format/size";
import { Icon } from "@/ui/Icon";
import { Section } from "@/ui/Section";
import { Why } from "@/ui/why/Why";
import type { Verdict } from "./useSubmit";
import css from "./VerdictPanel.module.css";

interface Props {
  verdict: Verdict | null;
  failure: unknown;
  onGoTo: (line: number, column: number) => void;
}

/** What the server says of the job as it is written now. */
export function VerdictPanel({ verdict, failure, onGoTo }: Props) {
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
  return result.valid ? <Good result={result} /> : <Bad errors={result.errors} onGoTo={onGoTo} />;
}

function Good({ result }: { result: CheckResult }) {
  const { summary, forecast } = result;
  return (
    <Section title="Check">
      <p className={css.good} role="status">
        <Icon name="check" size={14} /> Nothing is wrong with it
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
    </Section>
  );
}

function Bad({ errors, onGoTo }: { errors: SpecError[]; onGoTo: Props["onGoTo"] }) {
  return (
    <Section title={count(errors.length, "mistake")}>
      <ul className={css.errors} role="alert">
        {errors.map((error, number) => (
          <li key={number}>
            <button
              type="button"
              className={css.error}
              onClick={() => onGoTo(error.line ?? 1, error.column ?? 1)}
            >
              <span className={css.place}>
                {error.line === null ? "Whole file" : `Line ${error.line}`}
                {error.path ? <code>{error.path}</code> : null}
              </span>
              {error.message}
            </button>
          </li>
        ))}
      </ul>
    </Section>
  );
}
