import { ActionIcon, Checkbox, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { me } from "@/api/session";
import type { JobSummary, Me } from "@/api/types";
import { JobBadges } from "@/features/jobs/JobBadges";
import { TagList } from "@/features/jobs/TagList";
import { useStopJob } from "@/features/jobs/useStopJob";
import { mayStop } from "@/features/jobs/permissions";
import { formatExpectedTime, formatTimeUntil } from "@/format/time";
import { useNow } from "@/format/useNow";
import { Confirm } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { StateBadge } from "@/ui/StateBadge";
import { ElapsedTime, RelativeTime } from "@/ui/Time";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { NEWEST_FIRST, toOrder, toSorting } from "./searchParams";
import css from "./JobsTable.module.css";

interface Props {
  jobs: JobSummary[];
  /** Ids of jobs to act on together. */
  chosen: ReadonlySet<string>;
  onChoose: (chosen: ReadonlySet<string>) => void;
}

export function JobsTable({ jobs, chosen, onChoose }: Props) {
  const search = useSearch({ from: "/shell/jobs" });
  const navigate = useNavigate({ from: "/jobs" });
  const { data: user } = useQuery(me);
  const ids = useMemo(() => jobs.map((job) => job.id), [jobs]);
  const columns = useMemo(
    () => [choiceColumn(ids, chosen, onChoose), ...jobColumns(user ?? null)],
    [ids, chosen, onChoose, user],
  );
  const sorting = useMemo(() => toSorting(search.order ?? NEWEST_FIRST), [search.order]);
  return (
    <DataTable
      label="Jobs"
      columns={columns}
      rows={jobs}
      rowId={(job) => job.id}
      file="page"
      minWidth={980}
      sorting={sorting}
      onSortingChange={(next) => {
        const order = toOrder(next);
        void navigate({ search: (old) => ({ ...old, order, cursor: undefined }) });
      }}
    />
  );
}

function choiceColumn(
  ids: string[],
  chosen: Props["chosen"],
  onChoose: Props["onChoose"],
): Column<JobSummary> {
  const some = ids.filter((id) => chosen.has(id)).length;
  function toggle(id: string) {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    onChoose(next);
  }
  return {
    id: "choice",
    header: (
      <Checkbox
        size="xs"
        aria-label="Select all jobs on this page"
        checked={some > 0 && some === ids.length}
        indeterminate={some > 0 && some < ids.length}
        onChange={() => onChoose(new Set(some === ids.length ? [] : ids))}
      />
    ),
    width: "18px",
    cell: (job) => (
      <Checkbox
        size="xs"
        aria-label={`Select ${job.name}`}
        checked={chosen.has(job.id)}
        onChange={() => toggle(job.id)}
      />
    ),
  };
}

// Ordered by the server: what these return only marks a column as one that can be ordered by.
function jobColumns(user: Me | null): Column<JobSummary>[] {
  return [
    {
      id: "state",
      header: "State",
      width: "104px",
      cell: (job) => <StateBadge state={job.state} />,
      sortValue: (job) => job.state,
    },
    {
      id: "name",
      header: "Name",
      width: "minmax(min(280px, 42vw), 1fr)",
      cell: (job) => <JobNameCell job={job} />,
      sortValue: (job) => job.name,
    },
    {
      id: "vc",
      header: "Virtual cluster",
      width: "118px",
      optional: "phone",
      cell: (job) => job.virtual_cluster,
    },
    { id: "owner", header: "Owner", width: "96px", optional: true, cell: (job) => job.owner },
    {
      id: "gpus",
      header: "GPUs",
      optional: "phone",
      width: "56px",
      align: "end",
      cell: (job) => <span className="num">{job.gpus.toLocaleString("en")}</span>,
      sortValue: (job) => job.gpus,
    },
    {
      id: "tasks",
      header: "Tasks",
      width: "56px",
      optional: true,
      align: "end",
      cell: (job) => <span className="num">{job.tasks.toLocaleString("en")}</span>,
      sortValue: (job) => job.tasks,
    },
    {
      id: "submitted_at",
      header: "Submitted",
      optional: "phone",
      width: "88px",
      align: "end",
      cell: (job) => <RelativeTime at={job.submitted_at} />,
      sortValue: (job) => job.submitted_at,
    },
    {
      id: "duration",
      header: "Run time",
      optional: "phone",
      width: "80px",
      align: "end",
      cell: (job) => <ElapsedTime start={job.started_at} end={job.finished_at} />,
    },
    {
      id: "actions",
      header: "Stop",
      hiddenHeader: true,
      sticky: true,
      width: "28px",
      cell: (job) => <StopJobButton job={job} user={user} />,
    },
  ];
}

/** The name, and below it what one would open the job for: why it waits or failed. */
export function JobNameCell({ job }: { job: JobSummary }) {
  const reason = shownReason(job);
  return (
    <span className={css.cell}>
      <span className={css.line}>
        <Link to="/jobs/$id" params={{ id: job.id }} className={css.name}>
          {job.name}
        </Link>
        {job.attempt > 1 ? <span className={css.attempt}>attempt {job.attempt}</span> : null}
        <JobBadges job={job} />
        <TagList tags={job.tags} most={3} />
        {job.expected_start ? <StartCell at={Date.parse(job.expected_start)} /> : null}
      </span>
      {reason ? (
        <span className={css.reason} title={reason}>
          {reason}
        </span>
      ) : null}
    </span>
  );
}

function StartCell({ at }: { at: number }) {
  const now = useNow();
  return (
    <time
      className={css.start}
      dateTime={new Date(at).toISOString()}
      title={formatExpectedTime(at, now)}
    >
      starts {formatTimeUntil(at, now)}
    </time>
  );
}

function shownReason(job: JobSummary): string | undefined {
  if (job.state === "WAITING") return job.wait_reason?.message ?? isPreparing(job);
  if (job.preempting) return job.wait_reason?.message;
  if (job.state === "FAILED") return failureText(job);
  return undefined;
}

/** The diagnosis first: the line is cut where it is long. */
function failureText({ diagnosis_title, exit_reason }: JobSummary): string | undefined {
  const cause = exit_reason?.message;
  if (!diagnosis_title || cause?.includes(diagnosis_title)) return diagnosis_title ?? cause;
  return cause ? `${diagnosis_title}. ${cause}` : diagnosis_title;
}

function isPreparing(job: JobSummary): string | undefined {
  return job.placed_at ? "Placed; its nodes prepare the containers." : undefined;
}

function StopJobButton({ job, user }: { job: JobSummary; user: Me | null }) {
  const [asking, setAsking] = useState(false);
  const stopping = useStopJob(job.id);
  if (!mayStop(job, user)) return null;
  return (
    <>
      <Tooltip label="Stop">
        <ActionIcon
          size="sm"
          c="dimmed"
          aria-label={`Stop ${job.name}`}
          loading={stopping.isPending}
          onClick={() => setAsking(true)}
        >
          <Icon name="stop" size={14} />
        </ActionIcon>
      </Tooltip>
      <Confirm
        open={asking}
        question={`Stop ${job.name}?`}
        explanation="Its containers receive SIGTERM and are killed after their grace period. A stopped job cannot be resumed; its logs are kept."
        verb="Stop the job"
        onConfirm={() => stopping.mutate()}
        onClose={() => setAsking(false)}
      />
    </>
  );
}
