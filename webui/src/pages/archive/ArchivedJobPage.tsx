import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { archivedJob } from "@/api/archive";
import type { ArchivedAttempt, ArchivedEvent, ArchivedJob } from "@/api/types";
import { YamlView } from "@/features/yaml-editor/YamlView";
import { pluralize } from "@/format/numbers";
import { formatDateTime } from "@/format/time";
import { Breadcrumb } from "@/ui/Breadcrumb";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";
import { StateBadge } from "@/ui/StateBadge";
import { ElapsedTime } from "@/ui/Time";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import css from "./archive.module.css";

/** What is kept of one job that finished long ago. */
export function ArchivedJobPage() {
  const { id } = useParams({ from: "/shell/archive/$id" });
  const query = useQuery(archivedJob(id));
  if (query.data) return <Shown job={query.data} />;
  if (query.isPending) return <SkeletonRows rows={8} />;
  return (
    <ErrorState error={query.error} what="archived job" retry={() => void query.refetch()} page />
  );
}

function Shown({ job }: { job: ArchivedJob }) {
  return (
    <>
      <PageHeader
        title={job.name}
        note={`Archived ${formatDateTime(job.archived_at)}`}
        above={
          <Breadcrumb>
            <Link to="/archive">Archive</Link>
          </Breadcrumb>
        }
      />
      <div className={css.page}>
        <Facts job={job} />
        {job.shortened.length > 0 ? (
          <p className="dim">Only the first of these are kept: {job.shortened.join(", ")}.</p>
        ) : null}
        <h2 className={css.heading}>Attempts</h2>
        {job.attempts.length > 0 ? (
          <DataTable
            label="Attempts"
            columns={ATTEMPTS}
            rows={job.attempts}
            rowId={(row) => String(row.index)}
            file="page"
          />
        ) : (
          <EmptyState title="It never had a place" />
        )}
        <h2 className={css.heading}>Events</h2>
        <DataTable
          label="Events"
          columns={EVENTS}
          rows={job.events}
          rowId={(row) => `${row.at} ${row.kind}`}
          file="page"
        />
        <h2 className={css.heading}>Job file</h2>
        <YamlView text={job.spec_text} label={`Job file of ${job.name}`} />
      </div>
    </>
  );
}

function Facts({ job }: { job: ArchivedJob }) {
  return (
    <DescriptionList>
      <DescriptionItem name="State">
        <StateBadge state={job.state} />
      </DescriptionItem>
      {job.exit_reason ? (
        <DescriptionItem name="Why">{job.exit_reason.message}</DescriptionItem>
      ) : null}
      <DescriptionItem name="Owner">{job.owner}</DescriptionItem>
      <DescriptionItem name="Virtual cluster">{job.virtual_cluster}</DescriptionItem>
      <DescriptionItem name="Size">
        {pluralize(job.tasks, "task")}, {pluralize(job.gpus, "GPU")}
      </DescriptionItem>
      <DescriptionItem name="Submitted">{formatDateTime(job.submitted_at)}</DescriptionItem>
      <DescriptionItem name="Finished">{formatDateTime(job.finished_at)}</DescriptionItem>
      <DescriptionItem name="Ran for">
        <ElapsedTime start={job.started_at} end={job.finished_at} />
      </DescriptionItem>
      {job.use ? (
        <DescriptionItem name="Used">{job.use.gpu_hours.toFixed(1)} GPU-hours</DescriptionItem>
      ) : null}
      {job.tags.length > 0 ? (
        <DescriptionItem name="Tags">{job.tags.join(", ")}</DescriptionItem>
      ) : null}
    </DescriptionList>
  );
}

const ATTEMPTS: Column<ArchivedAttempt>[] = [
  { id: "index", header: "Attempt", width: "70px", cell: (row) => row.index },
  { id: "outcome", header: "Outcome", width: "110px", cell: (row) => row.outcome },
  {
    id: "started",
    header: "Started",
    width: "160px",
    cell: (row) => (row.started_at ? formatDateTime(row.started_at) : "–"),
  },
  {
    id: "duration",
    header: "Ran for",
    width: "100px",
    cell: (row) => <ElapsedTime start={row.started_at} end={row.finished_at} />,
  },
  {
    id: "nodes",
    header: "Nodes",
    width: "minmax(120px, 1fr)",
    cell: ({ nodes, nodes_total }) =>
      nodes.join(", ") +
      (nodes_total > nodes.length ? ` and ${nodes_total - nodes.length} more` : ""),
  },
  {
    id: "reason",
    header: "Reason",
    width: "minmax(160px, 2fr)",
    cell: (row) => [row.diagnosis_name, row.reason?.message].filter(Boolean).join(": "),
  },
];

const EVENTS: Column<ArchivedEvent>[] = [
  { id: "at", header: "Time", width: "160px", cell: (row) => formatDateTime(row.at) },
  { id: "kind", header: "Kind", width: "160px", cell: (row) => row.kind },
  { id: "message", header: "What", width: "minmax(200px, 3fr)", cell: (row) => row.message },
  { id: "actor", header: "By", width: "120px", cell: (row) => row.actor },
];
