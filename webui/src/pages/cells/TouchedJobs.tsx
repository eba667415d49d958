import { Link } from "@tanstack/react-router";
import type { CheckedAssignment, AffectedJob } from "@/api/types";
import { count } from "@/format/size";
import { Section } from "@/ui/Section";
import css from "./TouchedJobs.module.css";

/** Running jobs that lose or regain their guarantee. None of them is moved or ended. */
export function TouchedJobs({ check }: { check: CheckedAssignment }) {
  const { downgraded, restored } = check;
  if (downgraded.length + restored.length === 0) {
    return (
      <Section title="Running jobs">
        <p className="dim">All of them stay as they are.</p>
      </Section>
    );
  }
  return (
    <>
      <Jobs
        title={`${count(downgraded.length, "job")} would run as opportunistic`}
        about="Such a job goes on, and makes room when the cells’ owners come."
        jobs={downgraded}
      />
      <Jobs
        title={`${count(restored.length, "job")} would be guaranteed again`}
        about="As their virtual cluster owns the cells again."
        jobs={restored}
      />
    </>
  );
}

function Jobs({ title, about, jobs }: { title: string; about: string; jobs: AffectedJob[] }) {
  if (jobs.length === 0) return null;
  return (
    <Section title={title}>
      <p className="dim">{about}</p>
      <ul className={css.jobs}>
        {jobs.map((job) => (
          <li key={job.job_id} title={job.reason?.message}>
            <Link to="/jobs/$id" params={{ id: job.job_id }} className="link" target="_blank">
              {job.name}
            </Link>{" "}
            <span className="dim">{job.virtual_cluster}</span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
