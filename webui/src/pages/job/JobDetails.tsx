import { Menu, UnstyledButton } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { job as jobQuery, setIdleExemption, setVisibility } from "@/api/jobs";
import type { Job, TaskState, Visibility } from "@/api/types";
import { isFinished } from "@/features/jobs/permissions";
import { formatBytes, pluralize } from "@/format/numbers";
import { formatDateTime, formatDuration, formatExpectedTime } from "@/format/time";
import { useNow } from "@/format/useNow";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { Icon } from "@/ui/Icon";
import { stateLabel } from "@/ui/StateBadge";
import { ElapsedTime, RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import { PriorityEditor } from "./actions/PriorityEditor";
import { taskStates, waitTime } from "./labels";
import { expectation, predictionSource, restartCost } from "./prediction";
import css from "./JobDetails.module.css";

export function JobDetails({ job }: { job: Job }) {
  const { start, end, again } = waitTime(job);
  const [more, setMore] = useState(false);
  const details = detailsOf(job);
  return (
    <DescriptionList>
      <DescriptionItem name="Virtual cluster">
        <Link to="/jobs" search={{ vc: job.virtual_cluster }} className="link">
          {job.virtual_cluster}
        </Link>
      </DescriptionItem>
      <DescriptionItem name="Owner">
        <Link to="/jobs" search={{ owner: job.owner }} className="link">
          {job.owner}
        </Link>
      </DescriptionItem>
      {job.parent ? (
        <DescriptionItem name="Submitted by job">
          <Link to="/jobs/$id" params={{ id: job.parent.id }} className="link">
            {job.parent.name}
          </Link>
        </DescriptionItem>
      ) : null}
      <DescriptionItem name="Priority">
        <PriorityEditor job={job} />
      </DescriptionItem>
      {job.gpus > 0 && !isFinished(job.state) && (job.may_exempt || job.idle_exempt) ? (
        <DescriptionItem name="Idle rule">
          <IdleExemption job={job} />
        </DescriptionItem>
      ) : null}
      <DescriptionItem name="Visible to">
        <VisibilityMenu job={job} />
      </DescriptionItem>
      <DescriptionItem name="GPUs">
        <span className="num">{job.gpus.toLocaleString("en")}</span>
      </DescriptionItem>
      <ElasticSize job={job} />
      <DescriptionItem name="Submitted">
        <RelativeTime at={job.submitted_at} />
      </DescriptionItem>
      {again ? null : (
        <DescriptionItem name="Waited">
          <ElapsedTime start={start} end={end} />
        </DescriptionItem>
      )}
      <DescriptionItem name="Run time">
        <ElapsedTime start={job.started_at} end={job.finished_at} />
      </DescriptionItem>
      <Prediction job={job} />
      <Limits job={job} />
      {job.attempt > 1 ? (
        <DescriptionItem name="Attempt">
          <Link
            to="/jobs/$id"
            params={{ id: job.id }}
            search={{ tab: "attempts" }}
            className="link num"
          >
            {job.attempt}
          </Link>{" "}
          <span className="dim">({retryLimitText(job)})</span>
        </DescriptionItem>
      ) : null}
      <DescriptionItem name="Tasks">
        <TaskStateBar job={job} />
      </DescriptionItem>
      {more
        ? details.map(([name, value]) => (
            <DescriptionItem key={name} name={name}>
              {value}
            </DescriptionItem>
          ))
        : null}
      {details.length > 0 ? (
        <button type="button" className={css.more} onClick={() => setMore(!more)}>
          {more ? "Fewer details" : pluralize(details.length, "more detail")}
        </button>
      ) : null}
    </DescriptionList>
  );
}

/** Of an elastic job: with how many tasks it runs, of those that it may have. */
function ElasticSize({ job }: { job: Job }) {
  const role = job.task_roles.find((each) => each.elastic !== null);
  if (!role?.elastic) return null;
  const { min, max, asked } = role.elastic;
  return (
    <DescriptionItem name="Elastic size">
      <span className="num">{pluralize(role.instances, "task")}</span>{" "}
      <span className="dim">{`of ${min} to ${max}, ${asked} asked for`}</span>
    </DescriptionItem>
  );
}

/** How long it probably runs, and for a running job when it probably ends. */
function Prediction({ job }: { job: Job }) {
  const now = useNow();
  const { prediction, duration_s: declared } = job;
  if (isFinished(job.state) || (!prediction && !declared)) return null;
  const start = job.state === "RUNNING" && job.started_at ? Date.parse(job.started_at) : null;
  if (!prediction) {
    const end = start === null ? null : start + (declared ?? 0) * 1000;
    return (
      <DescriptionItem name={end === null ? "Expected to run" : "Expected to end"}>
        <span className="num">
          {end === null
            ? formatDuration(declared ?? 0)
            : end < now
              ? "later than declared"
              : `about ${formatExpectedTime(end, now)}`}
        </span>{" "}
        <span className="dim">
          {end === null ? "as declared" : `${formatDuration(declared ?? 0)} were declared`}
        </span>
      </DescriptionItem>
    );
  }
  const { text, note } = expectation(prediction, start, now);
  const restart = restartCost(prediction);
  return (
    <>
      <DescriptionItem name={start === null ? "Expected to run" : "Expected to end"}>
        <span className="num" title={predictionSource(prediction)}>
          {text}
        </span>{" "}
        <span className="dim">{note}</span>
      </DescriptionItem>
      {restart === null ? null : (
        <DescriptionItem name="A restart takes">
          <span className="num">{restart}</span> <span className="dim">as measured before</span>
        </DescriptionItem>
      )}
    </>
  );
}

/** How long it may run: what a running job's owner has to know in time. */
function Limits({ job }: { job: Job }) {
  const now = useNow();
  const late = job.deadline_at !== null && Date.parse(job.deadline_at) < now;
  return (
    <>
      {job.max_duration_s ? (
        <DescriptionItem name="May run for">
          <span className="num">{formatDuration(job.max_duration_s)}</span>{" "}
          {job.ends_at && !isFinished(job.state) ? (
            <span className="dim">until {formatExpectedTime(Date.parse(job.ends_at), now)}</span>
          ) : null}
        </DescriptionItem>
      ) : null}
      {job.deadline_at ? (
        <DescriptionItem name="Deadline">
          <time dateTime={job.deadline_at} title={formatDateTime(job.deadline_at)}>
            {formatExpectedTime(Date.parse(job.deadline_at), now)}
          </time>{" "}
          {late && !isFinished(job.state) ? <span className={css.late}>is over</span> : null}
        </DescriptionItem>
      ) : null}
    </>
  );
}

/** What the job file asked for beyond GPUs and time. */
function detailsOf(job: Job): [string, ReactNode][] {
  const variables = Object.entries(job.environment);
  const { working_files: files, git } = job;
  const details: [string, ReactNode][] = [];
  if (job.duration_s && job.prediction)
    details.push(["Declared duration", formatDuration(job.duration_s)]);
  if (job.pinned_cell) details.push(["Pinned cell", job.pinned_cell]);
  if (job.within) details.push(["Within one", job.within]);
  if (job.network_mode) details.push(["Network", job.network_mode]);
  if (job.work_dir) details.push(["Starts in", <code key="dir">{job.work_dir}</code>]);
  if (files) details.push(["Working files", `${formatBytes(files.size)} at ${files.path}`]);
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

function retryLimitText({ retries_used, free_retries, preemptions }: Job): string {
  const parts = [];
  if (retries_used) parts.push(`${pluralize(retries_used, "retry", "retries")} used`);
  if (free_retries) parts.push(`${pluralize(free_retries, "retry", "retries")} not counted`);
  if (preemptions) parts.push(pluralize(preemptions, "preemption"));
  return parts.join(", ");
}

const ORDER: TaskState[] = [
  "SUCCEEDED",
  "RUNNING",
  "PREPARING",
  "ASSIGNED",
  "WAITING",
  "STOPPING",
  "STOPPED",
  "LOST",
  "FAILED",
];

/** The states of all tasks as one strip. */
function TaskStateBar({ job }: { job: Job }) {
  const states = taskStates(job);
  const shown = ORDER.filter((state) => states[state]);
  const words = shown.map((state) => `${states[state]} ${stateLabel(state).toLowerCase()}`);
  return (
    <span className={css.tasks}>
      <span className="num">{job.tasks.toLocaleString("en")}</span>
      <span className={css.strip} role="img" aria-label={words.join(", ")} title={words.join(", ")}>
        {shown.map((state) => (
          <span key={state} data-state={state} style={{ flexGrow: states[state] }} />
        ))}
      </span>
    </span>
  );
}

/** Whether it may keep GPUs that it does not use; changed in place by VC admins. */
function IdleExemption({ job }: { job: Job }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (exempt: boolean) => setIdleExemption(job.id, exempt),
    onSuccess: (changed) => queries.setQueryData(jobQuery(job.id).queryKey, changed),
    onError: (error) => notifyError(error),
  });
  const words = job.idle_exempt ? "exempt" : "as its virtual cluster says";
  if (!job.may_exempt) return <>{words}</>;
  return (
    <Menu position="bottom-start" width={250}>
      <Menu.Target>
        <UnstyledButton className={css.choice} title="Change whether the idle rule holds for it">
          {words} <Icon name="down" size={11} />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Jobs that leave their GPUs idle</Menu.Label>
        <Menu.Item disabled={!job.idle_exempt} onClick={() => change.mutate(false)}>
          Warned and stopped as {job.virtual_cluster} says
        </Menu.Item>
        <Menu.Item disabled={job.idle_exempt} onClick={() => change.mutate(true)}>
          This one may keep its GPUs
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

const VISIBILITY_LABELS: Record<Visibility, string> = {
  owner: "owner and VC admins",
  members: "members",
  everyone: "everyone",
};

/** Who reads the job, changed in place by its owner. */
function VisibilityMenu({ job }: { job: Job }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (visibility: Visibility | null) => setVisibility(job.id, visibility),
    onSuccess: (changed) => queries.setQueryData(jobQuery(job.id).queryKey, changed),
    onError: (error) => notifyError(error),
  });
  if (!job.may_share) return <>{VISIBILITY_LABELS[job.seen_by]}</>;
  return (
    <Menu position="bottom-start" width={250}>
      <Menu.Target>
        <UnstyledButton className={css.choice} title="Change who sees this job">
          {VISIBILITY_LABELS[job.seen_by]} <Icon name="down" size={11} />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Who reads its file, logs and metrics</Menu.Label>
        <Menu.Item onClick={() => change.mutate("owner")}>You and the VC admins only</Menu.Item>
        <Menu.Item onClick={() => change.mutate("members")}>
          All members of {job.virtual_cluster}
        </Menu.Item>
        <Menu.Item onClick={() => change.mutate("everyone")}>Everyone</Menu.Item>
        <Menu.Divider />
        <Menu.Item disabled={job.visibility === null} onClick={() => change.mutate(null)}>
          As {job.virtual_cluster} decides
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
