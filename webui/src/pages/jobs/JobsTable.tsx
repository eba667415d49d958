import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { me } from "@/api/session";
import type { JobSummary, Me } from "@/api/types";
import { StateBadge } from "@/ui/StateBadge";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { Ago, Elapsed } from "@/ui/Time";
import { JobName } from "./JobName";
import { toOrder, toSorting } from "./order";
import { StopRow } from "./StopRow";
import { NEWEST_FIRST } from "./search";

export function JobsTable({ jobs }: { jobs: JobSummary[] }) {
  const search = useSearch({ from: "/shell/jobs" });
  const navigate = useNavigate({ from: "/jobs" });
  const { data: user } = useQuery(me);
  const columns = useMemo(() => jobColumns(user ?? null), [user]);
  const sorting = useMemo(() => toSorting(search.order ?? NEWEST_FIRST), [search.order]);
  return (
    <DataTable
      label="Jobs"
      columns={columns}
      rows={jobs}
      rowId={(job) => job.id}
      minWidth={980}
      sorting={sorting}
      onSortingChange={(next) => {
        const order = toOrder(next);
        void navigate({ search: (old) => ({ ...old, order, cursor: undefined }) });
      }}
    />
  );
}

// Ordered by the server: what these return only marks a column as one that can be ordered by.
function jobColumns(user: Me | null): Column<JobSummary>[] {
  return [
    {
      id: "state",
      header: "State",
      width: "104px",
      cell: (job) => <StateBadge state={job.state} />,
      sort: (job) => job.state,
    },
    {
      id: "name",
      header: "Name",
      width: "minmax(280px, 1fr)",
      cell: (job) => <JobName job={job} />,
      sort: (job) => job.name,
    },
    { id: "vc", header: "Virtual cluster", width: "118px", cell: (job) => job.virtual_cluster },
    { id: "owner", header: "Owner", width: "96px", spare: true, cell: (job) => job.owner },
    {
      id: "gpus",
      header: "GPUs",
      width: "56px",
      align: "end",
      cell: (job) => <span className="num">{job.gpus.toLocaleString("en")}</span>,
      sort: (job) => job.gpus,
    },
    {
      id: "tasks",
      header: "Tasks",
      width: "56px",
      spare: true,
      align: "end",
      cell: (job) => <span className="num">{job.tasks.toLocaleString("en")}</span>,
      sort: (job) => job.tasks,
    },
    {
      id: "submitted_at",
      header: "Submitted",
      width: "88px",
      align: "end",
      cell: (job) => <Ago at={job.submitted_at} />,
      sort: (job) => job.submitted_at,
    },
    {
      id: "duration",
      header: "Ran for",
      width: "80px",
      align: "end",
      cell: (job) => <Elapsed start={job.started_at} end={job.finished_at} />,
    },
    {
      id: "actions",
      header: "Stop",
      quiet: true,
      sticky: true,
      width: "28px",
      cell: (job) => <StopRow job={job} user={user} />,
    },
  ];
}
