import { Button, SegmentedControl, Select, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { me } from "@/api/session";
import type { Me } from "@/api/types";
import { type UsageRow, usage, usageExport } from "@/api/usage";
import { virtualClusters } from "@/api/virtualClusters";
import { sumColumns } from "@/features/usage/columns";
import { daysAgo } from "@/features/usage/days";
import { Totals } from "@/features/usage/Totals";
import { type Plot, UsageByDay } from "@/features/usage/UsageByDay";
import { EmptyState } from "@/ui/EmptyState";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { unreadText } from "@/ui/ReadNote";
import { type Grouping, GROUPINGS, type Range, type UsageSearch } from "./searchParams";
import css from "./UsagePage.module.css";

const REFRESH_MS = 60_000;

/** GPU time of the reader, of a virtual cluster, or of the whole cluster: whatever the reader may
 * see, by day and by whom. */
export function UsagePage() {
  const search: UsageSearch = useSearch({ from: "/shell/usage" });
  const { data: user } = useQuery(me);
  const { by = groupingFor(user), range = "30d", plot = "use", vc } = search;
  const since = daysAgo(RANGE_DAYS[range] - 1);
  const [text] = useDebouncedValue(search.q, 250);
  const name = by === "day" ? undefined : text;
  const days = useQuery({
    ...usage({ by: "day", since, vc }),
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  });
  return (
    <>
      <PageHeader title="Usage" note={user ? scopeOf(user, vc) : null}>
        <Button
          component="a"
          href={usageExport({ by, since, vc, name, order: "-allocated" })}
          download
          variant="default"
          leftSection={<Icon name="download" size={14} />}
        >
          Export CSV
        </Button>
      </PageHeader>
      <div className={css.page}>
        <Tools search={{ ...search, by, range, plot }} />
        <QueryState query={days} what="usage" rows={4} height={64}>
          {(data) => (
            <>
              <div className={css.totals}>
                <Totals sums={data.total} />
              </div>
              <UsageByDay rows={data.results} since={data.since} until={data.until} plot={plot} />
            </>
          )}
        </QueryState>
        <UsageTable by={by} since={since} vc={vc} name={name} />
      </div>
    </>
  );
}

function groupingFor(user: Me | null | undefined): Grouping {
  if (user?.is_admin) return "vc";
  return user?.virtual_clusters.some((vc) => vc.role === "admin") ? "user" : "job";
}

function scopeOf(user: Me, vc: string | undefined): string {
  if (user.is_admin) return vc ?? "the whole cluster";
  const own = user.virtual_clusters.filter(({ role }) => role === "admin").map(({ name }) => name);
  if (vc) return own.includes(vc) ? vc : `your own in ${vc}`;
  return own.length > 0 ? `your own, and all of ${own.join(", ")}` : "your own";
}

const RANGE_DAYS: Record<Range, number> = { "7d": 7, "30d": 30, "90d": 90, "365d": 365 };

const GROUPING_LABELS: Record<Grouping, string> = {
  user: "User",
  vc: "Virtual cluster",
  job: "Job",
  gpu_model: "GPU model",
  day: "Day",
};

interface ToolsProps {
  search: UsageSearch & { by: Grouping; range: Range; plot: Plot };
}

function Tools({ search }: ToolsProps) {
  const navigate = useNavigate({ from: "/usage" });
  const vcs = useQuery(virtualClusters);
  const change = (part: UsageSearch) =>
    void navigate({ search: (old) => ({ ...old, ...part }), replace: true });
  return (
    <search className={css.tools} aria-label="Filter usage">
      <SegmentedControl
        aria-label="Time range"
        value={search.range}
        onChange={(value) => change({ range: value as Range })}
        data={[
          { value: "7d", label: "7d" },
          { value: "30d", label: "30d" },
          { value: "90d", label: "90d" },
          { value: "365d", label: "1y" },
        ]}
      />
      <SegmentedControl
        aria-label="What the bars are made of"
        value={search.plot}
        onChange={(value) => change({ plot: value as Plot })}
        data={[
          { value: "use", label: "Used and idle" },
          { value: "class", label: "Guaranteed and borrowed" },
        ]}
      />
      <Select
        aria-label="Table by"
        value={search.by}
        onChange={(value) => change({ by: (value ?? undefined) as Grouping | undefined })}
        data={GROUPINGS.map((value) => ({
          value,
          label: `By ${GROUPING_LABELS[value].toLowerCase()}`,
        }))}
        allowDeselect={false}
        w={168}
      />
      <Select
        aria-label="Virtual cluster"
        placeholder="Any virtual cluster"
        data={vcs.data?.map(({ name }) => name) ?? []}
        nothingFoundMessage={unreadText(vcs, "list of virtual clusters") ?? "None"}
        value={search.vc ?? null}
        onChange={(vc) => change({ vc: vc ?? undefined })}
        clearable
        w={172}
      />
      {search.by === "day" ? null : (
        <TextInput
          type="search"
          aria-label="Filter the table by name"
          placeholder="Filter"
          leftSection={<Icon name="search" size={14} />}
          value={search.q ?? ""}
          onChange={(event) => change({ q: event.currentTarget.value || undefined })}
          w={150}
        />
      )}
    </search>
  );
}

interface TableProps {
  by: Grouping;
  since: string;
  vc: string | undefined;
  name: string | undefined;
}

function UsageTable({ by, since, vc, name }: TableProps) {
  const list = useQuery({
    ...usage({ by, since, vc, name, order: by === "day" ? "-day" : "-allocated" }),
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  });
  const columns = useMemo(() => [nameColumn(by), ...sumColumns<UsageRow>()], [by]);
  return (
    <QueryState query={list} what="table of usage">
      {(data) => {
        const rows = data.results;
        if (rows.length === 0) {
          return (
            <EmptyState title={name ? `No name contains "${name}"` : "No GPU time was used"}>
              GPU time is counted a minute after a job begins to hold GPUs.
            </EmptyState>
          );
        }
        return (
          <>
            <h2 className={css.caption}>GPU-hours by {GROUPING_LABELS[by].toLowerCase()}</h2>
            <DataTable
              label={`GPU-hours by ${GROUPING_LABELS[by].toLowerCase()}`}
              columns={columns}
              rows={rows}
              rowId={(row) => rowKey(row, by)}
              file="page"
              minWidth={760}
            />
            {data.next ? (
              <p className={css.more}>
                The {data.results.length.toLocaleString("en")} rows with the most are shown; the
                export has all.
              </p>
            ) : null}
          </>
        );
      }}
    </QueryState>
  );
}

function nameOf(row: UsageRow, by: Grouping): string {
  if (by === "job") return row.job?.name || "older jobs";
  return row[by] ?? "";
}

function rowKey(row: UsageRow, by: Grouping): string {
  return by === "job" ? (row.job?.id ?? "") : nameOf(row, by);
}

function nameColumn(by: Grouping): Column<UsageRow> {
  return {
    id: "name",
    header: GROUPING_LABELS[by],
    width: "minmax(120px, 1fr)",
    cell: (row) => <Name row={row} by={by} />,
    sortValue: (row) => nameOf(row, by),
  };
}

function Name({ row, by }: { row: UsageRow; by: Grouping }) {
  const name = nameOf(row, by);
  if (by === "job" && row.job?.id) {
    return (
      <Link to="/jobs/$id" params={{ id: row.job.id }} className={css.name}>
        {name}
      </Link>
    );
  }
  if (by === "vc" && name) {
    return (
      <Link
        to="/virtual-clusters/$name"
        params={{ name }}
        search={{ tab: "usage" }}
        className={css.name}
      >
        {name}
      </Link>
    );
  }
  return <span className={css.name}>{name}</span>;
}
