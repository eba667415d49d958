import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { type RankUse, rankUses, USE_RANKS } from "@/api/ranks";
import type { Job } from "@/api/types";
import { isFinished } from "@/features/jobs/permissions";
import { taskName } from "@/format/names";
import { formatMegabytes, formatPercent } from "@/format/numbers";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { QueryState } from "@/ui/QueryState";
import css from "./RankUses.module.css";

/** What each task used, so that the one behind the others shows. */
export function RankUses({ job }: { job: Job }) {
  const [first, setFirst] = useState(0);
  const uses = useQuery({
    ...rankUses(job.id, first),
    refetchInterval: isFinished(job.state) ? false : 30_000,
  });
  const columns = useMemo(() => rankColumns(job), [job]);
  if (first === 0 && uses.data?.ranks.length === 0) return null;
  const last = first + USE_RANKS;
  return (
    <section aria-label="Use by rank" className={css.ranks}>
      <header className={css.head}>
        <h2>By rank</h2>
        {job.tasks > USE_RANKS ? (
          <span>
            <Button
              variant="subtle"
              color="gray"
              disabled={first === 0}
              onClick={() => setFirst(Math.max(0, first - USE_RANKS))}
            >
              Previous
            </Button>
            <Button
              variant="subtle"
              color="gray"
              disabled={last >= job.tasks}
              onClick={() => setFirst(last)}
            >
              Next
            </Button>
          </span>
        ) : null}
      </header>
      <QueryState query={uses} what="use by rank">
        {({ ranks }) =>
          ranks.length === 0 ? (
            <p className={css.none}>None of these tasks was placed yet.</p>
          ) : (
            <DataTable
              label="Use by rank"
              columns={columns}
              rows={ranks}
              rowId={(rank) => String(rank.rank)}
              file={{ rows: `ranks-of-${job.name}` }}
              minWidth={job.gpus > 0 ? 820 : 560}
            />
          )
        }
      </QueryState>
    </section>
  );
}

function rankColumns(job: Job): Column<RankUse>[] {
  const running = !isFinished(job.state);
  const gpus: Column<RankUse>[] = [
    bar("busy", "GPU utilisation", (rank) => rank.gpu_utilization),
    ...(running
      ? [bar("recent", "Last 10 minutes", (rank: RankUse) => rank.gpu_utilization_recent)]
      : []),
    memory("gpu-memory", "GPU memory", (rank) => rank.gpu_memory_peak_mb),
  ];
  return [
    {
      id: "rank",
      header: "Rank",
      width: "64px",
      cell: (rank) => <span className="num">{rank.rank}</span>,
      sortValue: (rank) => rank.rank,
    },
    {
      id: "task",
      header: "Task",
      width: "minmax(96px, 1fr)",
      cell: (rank) => (
        <Link
          to="/jobs/$id"
          params={{ id: job.id }}
          search={{ tab: "logs", rank: rank.rank }}
          className="link"
        >
          {taskName(rank)}
        </Link>
      ),
      sortValue: taskName,
    },
    {
      id: "node",
      header: "Node",
      width: "minmax(96px, 1fr)",
      optional: "phone",
      cell: (rank) => rank.node,
      sortValue: (rank) => rank.node,
    },
    ...(job.gpus > 0 ? gpus : []),
    {
      id: "cpu",
      header: "CPU",
      width: "84px",
      align: "end",
      cell: (rank) => (
        <span className="num">
          {rank.cpu_percent === null ? "–" : formatPercent(rank.cpu_percent)}
        </span>
      ),
      sortValue: (rank) => rank.cpu_percent,
    },
    memory("memory", "Memory", (rank) => rank.memory_peak_mb),
  ];
}

function bar(id: string, header: string, value: (rank: RankUse) => number | null): Column<RankUse> {
  return {
    id,
    header,
    width: "minmax(120px, 1.2fr)",
    cell: (rank) => {
      const percent = value(rank);
      if (percent === null) return <span className="dim">–</span>;
      return (
        <span className={css.bar}>
          <i style={{ width: `${Math.min(100, percent)}%` }} />
          <span className="num">{formatPercent(percent)}</span>
        </span>
      );
    },
    sortValue: value,
  };
}

function memory(
  id: string,
  header: string,
  value: (rank: RankUse) => number | null,
): Column<RankUse> {
  return {
    id,
    header,
    width: "96px",
    align: "end",
    cell: (rank) => {
      const mb = value(rank);
      return <span className="num">{mb === null ? "–" : formatMegabytes(mb)}</span>;
    },
    sortValue: value,
  };
}
