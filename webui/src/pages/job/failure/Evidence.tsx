import { Link } from "@tanstack/react-router";
import type { Diagnosis, Job, Stream } from "@/api/types";
import { evidenceSearch } from "./words";
import css from "./Evidence.module.css";

/** The line that gave the failure away, and the way to its place in the log. */
export function Evidence({ job, diagnosis }: { job: Job; diagnosis: Diagnosis }) {
  const { evidence, rank } = diagnosis;
  if (!evidence.text) return null;
  const find = evidenceSearch(diagnosis);
  return (
    <figure className={css.evidence}>
      <pre className={css.text}>{evidence.text}</pre>
      <figcaption className={css.source}>
        <span>{sourceWords(diagnosis)}</span>
        {find && !job.logs_deleted_at ? (
          <Link
            to="/jobs/$id"
            params={{ id: job.id }}
            search={{ tab: "logs", rank: rank ?? undefined, stream: streamOf(diagnosis), find }}
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

function sourceWords({ evidence, task }: Diagnosis): string {
  if (evidence.source !== "log") return "What the node reported";
  const whose = [task, evidence.log].filter(Boolean).join(" ");
  return evidence.line > 0 ? `${whose}, line ${evidence.line.toLocaleString("en")}` : whose;
}
