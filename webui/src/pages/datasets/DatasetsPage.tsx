import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { datasets } from "@/api/datasets";
import type { Dataset } from "@/api/types";
import { NewDatasetForm } from "@/features/datasets/NewDatasetForm";
import { formatBytes, pluralize } from "@/format/numbers";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { ShowMore } from "@/ui/ShowMore";
import { SkeletonRows } from "@/ui/Skeleton";
import { StaleNote } from "@/ui/StaleNote";
import { RelativeTime } from "@/ui/Time";
import { PageTable } from "@/ui/table/PageTable";
import type { Column } from "@/ui/table/columns";
import css from "./datasets.module.css";

/** The datasets of the reader's virtual clusters. */
export function DatasetsPage() {
  const { q = "" } = useSearch({ from: "/shell/datasets" });
  const list = useInfiniteQuery(datasets(q));
  const rows = useMemo(() => list.data?.pages.flatMap((page) => page.results) ?? [], [list.data]);
  const [making, setMaking] = useState(false);
  return (
    <>
      <PageHeader title="Datasets" note="Named folders of storages that jobs mount to read">
        <ExportButton list="datasets" filter={{ search: q || undefined }} />
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => setMaking(true)}
        >
          Make a dataset
        </Button>
      </PageHeader>
      <StaleNote query={list} what="list of datasets" />
      {list.isPending ? <SkeletonRows /> : null}
      {list.isError && !list.data ? (
        <ErrorState error={list.error} what="list of datasets" retry={() => void list.refetch()} />
      ) : null}
      {list.data && rows.length === 0 && !q ? (
        <EmptyState title="No datasets yet">
          Give a folder of a storage a name and a version: jobs find it under that name, and its
          page says what it is.
        </EmptyState>
      ) : null}
      {rows.length > 0 || (list.data && q) ? (
        <PageTable
          filterLabel="Filter datasets"
          label="Datasets"
          columns={COLUMNS}
          rows={rows}
          rowId={(row) => row.id}
          minWidth={860}
        >
          <ShowMore list={list} className={css.more} />
        </PageTable>
      ) : null}
      {making ? <NewDatasetForm onClose={() => setMaking(false)} /> : null}
    </>
  );
}

const COLUMNS: Column<Dataset>[] = [
  {
    id: "name",
    header: "Name",
    width: "minmax(140px, 1.2fr)",
    cell: (row) => (
      <Link to="/datasets/$id" params={{ id: row.id }}>
        <b>{row.name}</b>
        <span className="dim">@{row.version}</span>
      </Link>
    ),
    sortValue: (row) => `${row.name}@${row.version}`,
  },
  {
    id: "description",
    header: "Description",
    width: "minmax(160px, 2fr)",
    cell: (row) => (
      <span className="dim" title={row.description}>
        {row.description.split("\n")[0]}
      </span>
    ),
    exportValue: (row) => row.description,
  },
  {
    id: "size",
    header: "Size",
    width: "150px",
    cell: (row) =>
      row.size === null ? "" : `${formatBytes(row.size)}, ${pluralize(row.files ?? 0, "file")}`,
    sortValue: (row) => row.size ?? -1,
  },
  {
    id: "virtual_cluster",
    header: "Virtual cluster",
    width: "minmax(110px, 1fr)",
    cell: (row) => row.virtual_cluster,
    sortValue: (row) => row.virtual_cluster,
  },
  {
    id: "owner",
    header: "Owner",
    width: "minmax(90px, 0.8fr)",
    cell: (row) => row.owner ?? "",
    sortValue: (row) => row.owner ?? "",
  },
  {
    id: "created_at",
    header: "Made",
    width: "110px",
    cell: (row) => <RelativeTime at={row.created_at} />,
    sortValue: (row) => row.created_at,
  },
];
