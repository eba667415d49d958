import { Link } from "@tanstack/react-router";
import type { Diagnosis, Job, Stream } from "@/api/types";
import { evidenceSearch } from "./labels";
import css from "./Evidence.module.css";

interface Props {
  job: Job;
  /** The attempt that failed so. */
  attempt: number;
  diagnosis: Diagnosis;
}

/** The line that gave the failure away, and the way to its place in the log. */
export function Evidence({ job, attempt, diagnosis }: Props) {
  const { evidence, rank } = diagnosis;
  if (!evidence.text) return null;
  const find = evidenceSearch(diagnosis);
  const whose = { rank: rank ?? undefined, attempt, stream: streamOf(diagnosis) };
  return (
    <figure className={css.evidence}>
      <pre className={css.text}>{evidence.text}</pre>
      <figcaption className={css.source}>
        <span>{sourceText(diagnosis)}</span>
        {find && !job.logs_deleted_at ? (
          <Link
            to="/jobs/$id"
            params={{ id: job.id }}
            search={{ tab: "logs", ...whose, find }}
            className={css.jump}
          >
            Show in the log
          </Link>
        ) : null}
      </figcaption>
    </figure>
  );
}

function streamOf({ evidence: { log } }: Diagnosis): Stream | undefined {
  return log === "stdout" || log === "stderr" ? log : undefined;
}

function sourceText({ evidence, task }: Diagnosis): string {
  if (evidence.source !== "log") return "What the node reported";
  const whose = [task, evidence.log].filter(Boolean).join(" ");
  return evidence.line > 0 ? `${whose}, line ${evidence.line.toLocaleString("en")}` : whose;
}
