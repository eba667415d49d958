import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type UserFairness, type VcFairness, vcFairness } from "@/api/virtualClusters";
import { formatPercent, pluralize } from "@/format/numbers";
import { QueryState } from "@/ui/QueryState";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import css from "./UsageTab.module.css";

const REFRESH_MS = 60_000;

/** By what factor the jobs of each user took longer than on an equal share of the GPUs. */
export function FairnessSection({ name }: { name: string }) {
  const query = useQuery({ ...vcFairness(name), refetchInterval: REFRESH_MS });
  return (
    <section className={css.section} aria-label="Fairness">
      <h2 className={css.title}>Fairness in the last 7 days</h2>
      <QueryState query={query} what="fairness" rows={2}>
        {(data) => (
          <>
            <p className={css.about}>{summaryOf(data)}</p>
            {data.jain_index === null ? null : (
              <p className={css.about}>
                Jain’s index of the users’ speeds: <b>{formatIndex(data.jain_index)}</b>. It is 1
                where the jobs of all users are slowed alike, and near 0 where only few users get
                on.
              </p>
            )}
            {data.results.length > 0 ? (
              <DataTable
                label="Fairness of each user"
                columns={COLUMNS}
                rows={data.results}
                rowId={(row) => row.user}
                file={{ rows: `fairness-of-${name}` }}
                minWidth={620}
              />
            ) : null}
          </>
        )}
      </QueryState>
    </section>
  );
}

export function summaryOf({ total, gpus }: VcFairness): string {
  if (total.rho_mean === null || total.rho_max === null || total.unfair_share === null) {
    return "Nothing is known yet: no guaranteed job with GPUs has run.";
  }
  return (
    `${pluralize(total.jobs, "job")} took ${formatRho(total.rho_mean)} times as long on average as ` +
    `with an equal share of ${pluralize(gpus, "GPU")}, the worst one ${formatRho(total.rho_max)} ` +
    `times. ${formatPercent(total.unfair_share * 100)} took more than 1.05 times.`
  );
}

function formatRho(rho: number | null): string {
  return rho === null ? "no estimate" : rho.toLocaleString("en", { maximumFractionDigits: 2 });
}

function formatIndex(index: number): string {
  return index.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

const COLUMNS: Column<UserFairness>[] = [
  {
    id: "user",
    header: "User",
    width: "minmax(110px, 1fr)",
    cell: (row) => <b>{row.user}</b>,
    sortValue: (row) => row.user,
  },
  {
    id: "rho",
    header: "Mean",
    width: "90px",
    cell: (row) => <span className="num">{formatRho(row.rho_mean)}</span>,
    sortValue: (row) => row.rho_mean,
  },
  {
    id: "worst",
    header: "Worst",
    width: "minmax(150px, 1.2fr)",
    cell: (row) => <Worst row={row} />,
    sortValue: (row) => row.rho_max,
  },
  {
    id: "jobs",
    header: "Jobs",
    width: "80px",
    cell: (row) => <span className="num">{row.jobs.toLocaleString("en")}</span>,
    sortValue: (row) => row.jobs,
    optional: "phone",
  },
  {
    id: "active",
    header: "Wait or run",
    width: "100px",
    cell: (row) => <span className="num">{row.active.toLocaleString("en")}</span>,
    sortValue: (row) => row.active,
    optional: "phone",
  },
  {
    id: "unknown",
    header: "No estimate",
    width: "110px",
    cell: (row) => <span className="num">{row.unknown.toLocaleString("en")}</span>,
    sortValue: (row) => row.unknown,
    optional: "phone",
  },
];

function Worst({ row: { rho_max, worst_job } }: { row: UserFairness }) {
  if (rho_max === null || !worst_job) return <>no estimate</>;
  return (
    <>
      <span className="num">{formatRho(rho_max)}</span>{" "}
      <Link to="/jobs/$id" params={{ id: worst_job.id }} className={css.job}>
        {worst_job.name}
      </Link>
    </>
  );
}
