import { Link } from "@tanstack/react-router";
import type { Job } from "@/api/types";
import { count } from "@/format/size";
import { duration } from "@/format/time";
import { Fact, Facts } from "@/ui/Facts";
import { Ago, Elapsed } from "@/ui/Time";
import { TaskStrip } from "./TaskStrip";
import { waited } from "./words";

export function JobFacts({ job }: { job: Job }) {
  const { start, end } = waited(job);
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
        {job.priority_class} <span className="dim num">{job.priority}</span>
      </Fact>
      <Fact name="GPUs">
        <span className="num">{job.gpus}</span>
      </Fact>
      <Fact name="Submitted">
        <Ago at={job.submitted_at} />
      </Fact>
      <Fact name="Waited">
        <Elapsed start={start} end={end} />
      </Fact>
      <Fact name="Ran for">
        <Elapsed start={job.started_at} end={job.finished_at} />
      </Fact>
      {job.pinned_cell ? <Fact name="Pinned cell">{job.pinned_cell}</Fact> : null}
      {job.within ? <Fact name="Within one">{job.within}</Fact> : null}
      {job.duration_s ? (
        <Fact name="Expected to run">
          <span className="num">{duration(job.duration_s)}</span>
        </Fact>
      ) : null}
      {job.attempt > 1 ? (
        <Fact name="Attempt">
          <span className="num">{job.attempt}</span> <span className="dim">{retryWords(job)}</span>
        </Fact>
      ) : null}
      <Fact name="Tasks">
        <TaskStrip job={job} />
      </Fact>
    </Facts>
  );
}

function retryWords({ retries_used, preemptions }: Job): string {
  const parts = [retries_used === 1 ? "1 retry used" : `${retries_used} retries used`];
  if (preemptions) parts.push(count(preemptions, "preemption"));
  return parts.join(", ");
}
