import { Link } from "@tanstack/react-router";
import type { Job } from "@/api/types";
import { Icon } from "@/ui/Icon";
import css from "./BadGpus.module.css";

/** GPUs of a running job that failed: it may hang or compute nonsense although it still runs. */
export function BadGpus({ job }: { job: Job }) {
  if (job.bad_gpus.length === 0) return null;
  return (
    <ul className={css.list} role="alert" aria-label="GPUs of this job that failed">
      {job.bad_gpus.map((gpu) => (
        <li key={gpu.uuid}>
          <Icon name="warning" size={14} /> GPU {gpu.index} of{" "}
          <Link to="/cluster" className="link">
            {gpu.node}
          </Link>{" "}
          ({gpu.task}) failed: {gpu.problem || "it is no longer there"}
        </li>
      ))}
    </ul>
  );
}
