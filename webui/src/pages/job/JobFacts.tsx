import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import type { Job } from "@/api/types";
import { useNow } from "@/format/now";
import { bytes, count } from "@/format/size";
import { about, duration, fullTime } from "@/format/time";
import { Fact, Facts } from "@/ui/Facts";
import { Ago, Elapsed } from "@/ui/Time";
import { Priority } from "./Priority";
import { SeenBy } from "./SeenBy";
import { TaskStrip } from "./TaskStrip";
import { isOver, waited } from "./words";
import css from "./JobFacts.module.css";

export function JobFacts({ job }: { job: Job }) {
  const { start, end, again } = waited(job);
  const [more, setMore] = useState(false);
  const details = detailsOf(job);
  return (
    <Facts>
      <Fact name="Virtual cluster">
        <Link to="/jobs" search={{ vc: job.virtual_cluster }} className="link">
          {job.virtual_cluster}
        </Link>
      </Fact>
      <Fact name="Owner">
        <Link to="/jobs" search={{ owner: job.owner }} className="link">
          {job.owner}
        </Link>
      </Fact>
      <Fact name="Priority">
        <Priority job={job} />
      </Fact>
      <Fact name="Seen by">
        <SeenBy job={job} />
      </Fact>
      <Fact name="GPUs">
        <span className="num">{job.gpus.toLocaleString("en")}</span>
      </Fact>
      <Fact name="Submitted">
        <Ago at={job.submitted_at} />
      </Fact>
      {again ? null : (
        <Fact name="Waited">
          <Elapsed start={start} end={end} />
        </Fact>
      )}
      <Fact name="Ran for">
        <Elapsed start={job.started_at} end={job.finished_at} />
      </Fact>
      <Limits job={job} />
      {job.attempt > 1 ? (
        <Fact name="Attempt">
          <Link
            to="/jobs/$id"
            params={{ id: job.id }}
            search={{ tab: "attempts" }}
            className="link num"
          >
            {job.attempt}
          </Link>{" "}
          <span className="dim">{retryWords(job)}</span>
        </Fact>
      ) : null}
      <Fact name="Tasks">
        <TaskStrip job={job} />
      </Fact>
      {more
        ? details.map(([name, value]) => (
            <Fact key={name} name={name}>
              {value}
            </Fact>
          ))
        : null}
      {details.length > 0 ? (
        <button type="button" className={css.more} onClick={() => setMore(!more)}>
          {more ? "Less" : `${details.length} more`}
        </button>
      ) : null}
    </Facts>
  );
}

/** How long it may run: what a running job's owner has to know in time. */
function Limits({ job }: { job: Job }) {
  const now = useNow();
  const late = job.deadline_at !== null && Date.parse(job.deadline_at) < now;
  return (
    <>
      {job.max_duration_s ? (
        <Fact name="May run for">
          <span className="num">{duration(job.max_duration_s)}</span>{" "}
          {job.ends_at && !isOver(job.state) ? (
            <span className="dim">until {about(Date.parse(job.ends_at), now)}</span>
          ) : null}
        </Fact>
      ) : null}
      {job.deadline_at ? (
        <Fact name="Deadline">
          <time dateTime={job.deadline_at} title={fullTime(job.deadline_at)}>
            {about(Date.parse(job.deadline_at), now)}
          </time>{" "}
          {late && !isOver(job.state) ? <span className={css.late}>is over</span> : null}
        </Fact>
      ) : null}
    </>
  );
}

/** What the job file asked for beyond GPUs and time. */
function detailsOf(job: Job): [string, ReactNode][] {
  const variables = Object.entries(job.environment);
  const { working_files: files, git } = job;
  const details: [string, ReactNode][] = [];
  if (job.duration_s) details.push(["Expected to run", duration(job.duration_s)]);
  if (job.pinned_cell) details.push(["Pinned cell", job.pinned_cell]);
  if (job.within) details.push(["Within one", job.within]);
  if (job.network_mode) details.push(["Network", job.network_mode]);
  if (job.work_dir) details.push(["Starts in", <code key="dir">{job.work_dir}</code>]);
  if (files) details.push(["Working files", `${bytes(files.size)} at ${files.path}`]);
  if (git) details.push(["Git", `${git.url} ${git.commit.slice(0, 12)} at ${git.path}`]);
  if (variables.length > 0) details.push(["Environment", <Environment key="e" of={variables} />]);
  return details;
}

function Environment({ of }: { of: [string, string][] }) {
  return (
    <ul className={css.environment}>
      {of.map(([name, value]) => (
        <li key={name} title={value}>
          {name}={value}
        </li>
      ))}
    </ul>
  );
}

function retryWords({ retries_used, free_retries, preemptions }: Job): string {
  const parts = [];
  if (retries_used) parts.push(`${count(retries_used, "retry", "retries")} used`);
  if (free_retries) parts.push(`${count(free_retries, "retry", "retries")} not counted`);
  if (preemptions) parts.push(count(preemptions, "preemption"));
  return parts.join(", ");
}
