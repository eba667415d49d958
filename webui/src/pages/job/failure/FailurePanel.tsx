import { Link } from "@tanstack/react-router";
import type { Diagnosis, Job } from "@/api/types";
import { useNow } from "@/format/now";
import { Icon } from "@/ui/Icon";
import { Prose } from "@/ui/Prose";
import type { JobSearch } from "../search";
import { Evidence } from "./Evidence";
import { RetryNow } from "./RetryNow";
import { isNews, repeats, retryWords, titleOf } from "./words";
import css from "./FailurePanel.module.css";

interface Props {
  job: Job;
  /** In a line, where the room is for something else. */
  brief: boolean;
}

/** Why the job failed, what to do about it, and whether it is tried again. */
export function FailurePanel({ job, brief }: Props) {
  if (job.diagnosing) {
    return (
      <p className={css.reading} role="status">
        <span className={css.pulse} aria-hidden="true" /> Reading the logs…
        <span className="dim">An attempt failed; what it wrote tells why.</span>
      </p>
    );
  }
  if (!job.diagnosis) return null;
  if (isNews(job)) {
    const Shown = brief ? FailureLine : Failure;
    return <Shown job={job} diagnosis={job.diagnosis} />;
  }
  return job.state === "RUNNING" || job.state === "WAITING" ? (
    <Earlier job={job} diagnosis={job.diagnosis} />
  ) : null;
}

function Failure({ job, diagnosis }: { job: Job; diagnosis: Diagnosis }) {
  const now = useNow();
  const reason = job.state === "FAILED" ? job.exit_reason : null;
  return (
    <section className={css.panel} data-state={job.state} aria-label="Why it failed">
      <header className={css.head}>
        <span className={css.mark}>
          <Icon name="warning" size={16} />
        </span>
        <h2 className={css.title}>{titleOf(diagnosis)}</h2>
        {diagnosis.task ? <span className={css.where}>{whereWords(diagnosis)}</span> : null}
      </header>
      <p className={css.remedy}>
        <Prose text={diagnosis.remedy} />{" "}
        {diagnosis.evidence.text || job.logs_deleted_at ? null : (
          <Link to="/jobs/$id" params={{ id: job.id }} search={endOfLog(job)} className="link">
            Show its end
          </Link>
        )}
      </p>
      <Evidence job={job} attempt={job.attempt} diagnosis={diagnosis} />
      {reason && !repeats(reason, diagnosis) ? (
        <p className={css.reason}>{reason.message}</p>
      ) : null}
      <p className={css.retry}>
        <Icon name={job.state === "FAILED" ? "stop" : "undo"} size={14} />
        {retryWords(job, diagnosis, now)} <RetryNow job={job} />
      </p>
      <SmallPrint diagnosis={diagnosis} />
    </section>
  );
}

function FailureLine({ job, diagnosis }: { job: Job; diagnosis: Diagnosis }) {
  return (
    <p className={css.line} data-state={job.state}>
      <span className={css.mark}>
        <Icon name="warning" size={14} />
      </span>
      <b>{titleOf(diagnosis)}</b>
      <span className={css.clipped} title={diagnosis.remedy}>
        <Prose text={diagnosis.remedy} />
      </span>
      <Link to="/jobs/$id" params={{ id: job.id }} search={{}} className="link">
        Show why
      </Link>
    </p>
  );
}

/** A failure that the job has got over: one line, and the way to the whole story. */
function Earlier({ job, diagnosis }: { job: Job; diagnosis: Diagnosis }) {
  return (
    <p className={css.earlier}>
      <Icon name="undo" size={14} />
      <span>
        An earlier attempt failed: <b>{titleOf(diagnosis)}</b>
        {diagnosis.task ? ` (${whereWords(diagnosis)})` : ""}.{" "}
        <Link to="/jobs/$id" params={{ id: job.id }} search={{ tab: "attempts" }} className="link">
          All attempts
        </Link>
      </span>
    </p>
  );
}

export function SmallPrint({ diagnosis }: { diagnosis: Diagnosis }) {
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

function whereWords({ task, node, blame }: Diagnosis): string {
  if (!node) return task ?? "";
  return blame === "node" ? `${task} on ${node}, which is to blame` : `${task} on ${node}`;
}
