import { Link } from "@tanstack/react-router";
import type { Diagnosis, Job } from "@/api/types";
import { useNow } from "@/format/useNow";
import { FormattedMessage } from "@/ui/FormattedMessage";
import { Icon } from "@/ui/Icon";
import { EndRetriesButton, RetryNowButton } from "../actions/Retries";
import { RunAgainButtons } from "../actions/RunAgain";
import actions from "../actions/actions.module.css";
import type { JobSearch } from "../searchParams";
import { Evidence } from "./Evidence";
import { diagnosisTitle, isLatestState, repeatsDiagnosis, retryText } from "./labels";
import css from "./FailurePanel.module.css";

interface Props {
  job: Job;
  /** In one line, where space is short. */
  brief: boolean;
}

/** Why the job failed, what to do about it, and whether it is tried again. */
export function FailurePanel({ job, brief }: Props) {
  if (job.diagnosing) {
    return (
      <p className={css.reading} role="status">
        <span className={css.pulse} aria-hidden="true" /> Reading the logs…
        <span className="dim">An attempt failed; its output may show why.</span>
      </p>
    );
  }
  if (!job.diagnosis) return null;
  if (isLatestState(job)) {
    const Shown = brief ? FailureLine : FailureDetails;
    return <Shown job={job} diagnosis={job.diagnosis} />;
  }
  return job.state === "RUNNING" || job.state === "WAITING" ? (
    <EarlierFailure job={job} diagnosis={job.diagnosis} />
  ) : null;
}

function FailureDetails({ job, diagnosis }: { job: Job; diagnosis: Diagnosis }) {
  const now = useNow();
  const reason = job.state === "FAILED" ? job.exit_reason : null;
  return (
    <section className={css.panel} data-state={job.state} aria-label="Why it failed">
      <header className={css.head}>
        <span className={css.mark}>
          <Icon name="warning" size={16} />
        </span>
        <h2 className={css.title}>{diagnosisTitle(diagnosis)}</h2>
        {diagnosis.task ? <span className={css.where}>{locationText(diagnosis)}</span> : null}
      </header>
      <p className={css.remedy}>
        <FormattedMessage text={diagnosis.remedy} />{" "}
        {diagnosis.evidence.text || job.logs_deleted_at ? null : (
          <Link to="/jobs/$id" params={{ id: job.id }} search={endOfLog(job)} className="link">
            Show its end
          </Link>
        )}
      </p>
      <Evidence job={job} attempt={job.attempt} diagnosis={diagnosis} />
      {reason && !repeatsDiagnosis(reason, diagnosis) ? (
        <p className={css.reason}>{reason.message}</p>
      ) : null}
      <p className={css.retry}>
        <Icon name={job.state === "FAILED" ? "stop" : "undo"} size={14} />
        {retryText(job, diagnosis, now)}
      </p>
      <div className={actions.actions}>
        <RetryNowButton job={job} />
        <EndRetriesButton job={job} />
        <RunAgainButtons job={job} />
      </div>
      <DiagnosisDetails diagnosis={diagnosis} />
    </section>
  );
}

function FailureLine({ job, diagnosis }: { job: Job; diagnosis: Diagnosis }) {
  return (
    <p className={css.line} data-state={job.state}>
      <span className={css.mark}>
        <Icon name="warning" size={14} />
      </span>
      <b>{diagnosisTitle(diagnosis)}</b>
      <span className={css.clipped} title={diagnosis.remedy}>
        <FormattedMessage text={diagnosis.remedy} />
      </span>
      <Link to="/jobs/$id" params={{ id: job.id }} search={{}} className="link">
        Show why
      </Link>
    </p>
  );
}

/** A failure that the job has got over: one line, and the way to the whole story. */
function EarlierFailure({ job, diagnosis }: { job: Job; diagnosis: Diagnosis }) {
  return (
    <p className={css.earlier}>
      <Icon name="undo" size={14} />
      <span>
        An earlier attempt failed: <b>{diagnosisTitle(diagnosis)}</b>
        {diagnosis.task ? ` (${locationText(diagnosis)})` : ""}.{" "}
        <Link to="/jobs/$id" params={{ id: job.id }} search={{ tab: "attempts" }} className="link">
          All attempts
        </Link>{" "}
        {job.retries_ended ? "It is not tried again. " : null}
        <EndRetriesButton job={job} />
      </span>
    </p>
  );
}

export function DiagnosisDetails({ diagnosis }: { diagnosis: Diagnosis }) {
  const { axis, code, name, exit_code, rule } = diagnosis;
  return (
    <p className={css.small}>
      {rule ? <>{axis} · </> : null}
      <code>{name}</code> {code}
      {exit_code === null ? null : <> · exit code {exit_code}</>}
      {rule ? <> · rule {rule}</> : null}
    </p>
  );
}

function endOfLog({ attempt, diagnosis }: Job): JobSearch {
  return { tab: "logs", rank: diagnosis?.rank ?? undefined, attempt };
}

function locationText({ task, node, blame }: Diagnosis): string {
  if (!node) return task ?? "";
  return blame === "node" ? `${task} on ${node}, which is to blame` : `${task} on ${node}`;
}
