import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { archivedJobs } from "@/api/archive";
import type { ArchivedJobSummary } from "@/api/types";
import { JobsBreadcrumb } from "@/features/jobs/JobsBreadcrumb";
import { EmptyPage, EmptyState, ErrorState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { FilterInput } from "@/ui/FilterInput";
import { PageHeader } from "@/ui/PageHeader";
import { Pagination } from "@/ui/Pagination";
import { SkeletonRows } from "@/ui/Skeleton";
import { StateBadge } from "@/ui/StateBadge";
import { RelativeTime } from "@/ui/Time";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { StaleNote } from "@/ui/StaleNote";
import css from "./archive.module.css";

/** Jobs that finished long ago and were moved to the archive. */
export function ArchivePage() {
  const { q, cursor }: { q?: string; cursor?: string } = useSearch({ from: "/shell/archive" });
  const navigate = useNavigate({ from: "/archive" });
  const page = useQuery(archivedJobs({ search: q, cursor }));
  const go = (next: string | undefined) => void navigate({ search: { q, cursor: next } });
  const onFirstPage = cursor ? () => go(undefined) : undefined;
  const rows = page.data?.results ?? [];
  return (
    <>
      <PageHeader
        title="Archive"
        note="Jobs that finished long ago: what is kept of them"
        above={<JobsBreadcrumb />}
      >
        <ExportButton list="archived-jobs" filter={{ search: q }} />
      </PageHeader>
      <search className={css.filter} aria-label="Filter archived jobs">
        <FilterInput
          label="Name contains"
          placeholder="Name"
          icon="search"
          value={q ?? ""}
          onChange={(text) => void navigate({ search: { q: text || undefined }, replace: true })}
          className={css.search}
        />
      </search>
      {page.isPending ? <SkeletonRows rows={10} /> : null}
      {page.isError && !page.data ? (
        <ErrorState
          error={page.error}
          what="archive"
          retry={() => void page.refetch()}
          onFirstPage={onFirstPage}
        />
      ) : null}
      <StaleNote query={page} what="archive" />
      {page.data && rows.length === 0 && onFirstPage ? (
        <EmptyPage onFirstPage={onFirstPage} />
      ) : null}
      {page.data && rows.length === 0 && !onFirstPage ? (
        <EmptyState title={q ? "No archived job matches" : "Nothing is archived"}>
          Finished jobs come here some time after their end, if administrators archive them.
        </EmptyState>
      ) : null}
      {rows.length > 0 ? (
        <DataTable
          label="Archived jobs"
          columns={COLUMNS}
          rows={rows}
          rowId={(row) => row.id}
          file="page"
          minWidth={860}
        />
      ) : null}
      {page.data ? <Pagination page={page.data} onGo={go} /> : null}
    </>
  );
}

const COLUMNS: Column<ArchivedJobSummary>[] = [
  {
    id: "name",
    header: "Name",
    width: "minmax(160px, 2fr)",
    cell: (row) => (
      <Link to="/archive/$id" params={{ id: row.id }}>
        <b>{row.name}</b>
      </Link>
    ),
  },
  {
    id: "state",
    header: "State",
    width: "120px",
    cell: (row) => <StateBadge state={row.state} />,
  },
  { id: "owner", header: "Owner", width: "minmax(100px, 1fr)", cell: (row) => row.owner },
  {
    id: "vc",
    header: "Virtual cluster",
    width: "minmax(100px, 1fr)",
    cell: (row) => row.virtual_cluster,
  },
  { id: "gpus", header: "GPUs", width: "70px", align: "end", cell: (row) => row.gpus },
  {
    id: "submitted",
    header: "Submitted",
    width: "120px",
    cell: (row) => <RelativeTime at={row.submitted_at} />,
  },
  {
    id: "finished",
    header: "Finished",
    width: "120px",
    cell: (row) => <RelativeTime at={row.finished_at} />,
  },
];
