import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { simulationOptions, simulations, type SimulationSummary } from "@/api/simulations";
import { CopyableCode } from "@/ui/CopyableCode";
import { EmptyState } from "@/ui/EmptyState";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { RelativeTime } from "@/ui/Time";
import { QuestionForm } from "./QuestionForm";
import { policyLabel } from "@/features/simulations/labels";
import { scopeOf, stateLabel } from "./labels";
import css from "./simulator.module.css";

const COMMAND = "skep simulate --trace history --cluster live --policy fifo --policy srtf";

/** Ask what another policy, more GPUs or another quota would have done; and what was asked before. */
export function SimulatorPage() {
  const options = useQuery(simulationOptions);
  return (
    <>
      <PageHeader title="Simulator" />
      <div className={css.page}>
        <QueryState query={options} what="list of policies" rows={5} height={56}>
          {(known) =>
            known.whole_cluster || known.virtual_clusters.length > 0 ? (
              <>
                <QuestionForm options={known} />
                <Earlier />
              </>
            ) : (
              <EmptyState
                title="Simulations on the server are for VC admins"
                action={<CopyableCode label="Command" text={COMMAND} />}
              >
                On your own machine you may simulate the jobs that you can see.
              </EmptyState>
            )
          }
        </QueryState>
      </div>
    </>
  );
}

function Earlier() {
  const list = useQuery(simulations);
  return (
    <section className={css.section} aria-label="Earlier simulations">
      <h2 className={css.title}>Earlier simulations</h2>
      <QueryState query={list} what="list of simulations">
        {({ results }) =>
          results.length === 0 ? (
            <p className="dim">There are none yet. Results are kept for 90 days.</p>
          ) : (
            <DataTable
              label="Earlier simulations"
              columns={COLUMNS}
              rows={results}
              rowId={(row) => row.id}
              file={{ list: "simulations" }}
              minWidth={520}
            />
          )
        }
      </QueryState>
    </section>
  );
}

const COLUMNS: Column<SimulationSummary>[] = [
  {
    id: "policies",
    header: "Policies",
    width: "minmax(150px, 2fr)",
    cell: (row) => (
      <Link to="/simulator/$id" params={{ id: row.id }} className="link">
        {row.policies.map(policyLabel).join(", ")}
      </Link>
    ),
  },
  {
    id: "scope",
    header: "Of",
    width: "minmax(110px, 1fr)",
    cell: (row) => scopeOf(row),
  },
  {
    id: "state",
    header: "State",
    width: "minmax(90px, 1fr)",
    cell: (row) => stateLabel(row.state),
  },
  {
    id: "owner",
    header: "By",
    width: "minmax(80px, 1fr)",
    cell: (row) => row.owner,
    optional: "phone",
  },
  {
    id: "at",
    header: "Asked",
    width: "120px",
    cell: (row) => <RelativeTime at={row.created_at} />,
  },
];
