import { useQuery } from "@tanstack/react-query";
import { health, predictions } from "@/api/cluster";
import type { components } from "@/api/schema";
import { me } from "@/api/session";
import { formatBytes } from "@/format/numbers";
import { useLiveQueries, usePoll } from "@/live/live";
import { EmptyState } from "@/ui/EmptyState";
import { Icon } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { RelativeTime } from "@/ui/Time";
import { AlertRules } from "./AlertRules";
import { DoctorReport } from "./DoctorReport";
import css from "./HealthPage.module.css";
import { PlatformState } from "./PlatformState";

type Alert = components["schemas"]["Alert"];

/** What an administrator should attend to, the state of the platform, alert rules, the doctor. */
export function HealthPage() {
  const { data: user } = useQuery(me);
  if (user && !user.is_admin) {
    return (
      <EmptyState page title="For administrators only">
        They see to the log store, the disks of the nodes and the gateway.
      </EmptyState>
    );
  }
  return <Health />;
}

function Health() {
  const query = useQuery({ ...health, refetchInterval: usePoll(15_000) });
  useLiveQueries("cluster", "", [health.queryKey], 10_000);
  return (
    <>
      <PageHeader title="Health" note={waitingLabel(query.data?.log_bytes_waiting ?? 0)} />
      <QueryState query={query} what="health" rows={4} height={64}>
        {({ alerts }) => (
          <>
            <Parts alerts={alerts} stale={query.isError} />
            {alerts.length > 0 ? <Problems alerts={alerts} /> : null}
          </>
        )}
      </QueryState>
      <PlatformState />
      <AlertRules />
      <DoctorReport />
      <Predictions />
    </>
  );
}

function Problems({ alerts }: { alerts: Alert[] }) {
  return (
    <ul className={css.alerts} aria-label="Problems">
      {alerts.map((alert) => (
        <li key={alert.code} className={css.alert} data-severity={alert.severity}>
          <Icon name="warning" size={18} />
          <div className={css.about}>
            <p>
              <b>{alert.severity === "critical" ? "Critical" : "Warning"}</b>{" "}
              {alert.since ? (
                <span className="dim">
                  since <RelativeTime at={alert.since} />
                </span>
              ) : null}
            </p>
            <p>{alert.message}</p>
          </div>
          <AlertAction alert={alert} />
        </li>
      ))}
    </ul>
  );
}

/** The parts of the platform, and the codes of the alerts that are about each. */
const PARTS: { name: string; does: string; codes: string[] }[] = [
  { name: "Database", does: "answered this page", codes: [] },
  { name: "Valkey", does: "makes pages live and wakes the scheduler", codes: ["valkey_away"] },
  { name: "Scheduler", does: "starts and preempts jobs", codes: ["scheduler_stopped"] },
  { name: "Gateway", does: "takes the connections of nodes", codes: ["no_gateway"] },
  {
    name: "Log store",
    does: "keeps the output of jobs",
    codes: ["log_store_away", "logs_waiting", "log_store_nearly_full"],
  },
  { name: "Disks of nodes", does: "hold images and scratch", codes: ["node_disk_low"] },
  { name: "Nodes", does: "are back after a planned stop", codes: ["nodes_awaited"] },
];

/** Each part of the platform with its worst state. That there are no problems is said of now only. */
function Parts({ alerts, stale }: { alerts: Alert[]; stale: boolean }) {
  return (
    <section aria-labelledby="parts" className={css.parts}>
      <h2 id="parts">{alerts.length === 0 && !stale ? "No problems" : "Parts"}</h2>
      <ul>
        {PARTS.map(({ name, does, codes }) => {
          const found = alerts.filter(({ code }) => codes.includes(code));
          const state = found.some(({ severity }) => severity === "critical")
            ? "critical"
            : found.length > 0
              ? "warning"
              : "ok";
          return (
            <li key={name} data-state={state}>
              <Icon name={state === "ok" ? "check" : "warning"} size={16} />
              <span>
                <b>{name}</b>{" "}
                <span className="dim">{state === "ok" ? does : `${state}, see below`}</span>
              </span>
            </li>
          );
        })}
      </ul>
      <p className="dim">
        Your monitoring reads the same from <code>GET /api/v1/health</code>.
      </p>
    </section>
  );
}

const SOURCES: Record<string, string> = {
  name: "Earlier jobs of the same name",
  command: "Earlier jobs with the same command",
  gpus: "Earlier jobs on as many GPUs",
  "": "No prediction",
};

/** How well the durations of jobs were predicted: an interval has to hold in 80 % of the cases. */
function Predictions() {
  const query = useQuery(predictions);
  const found = query.data && (query.data.sources.length > 0 || query.data.starts.jobs > 0);
  if (!found && !query.isError) return null;
  return (
    <section aria-labelledby="predictions" className={css.part}>
      <h2 id="predictions">Predicted durations and starts</h2>
      <QueryState query={query} what="accuracy of the predictions" rows={3}>
        {(data) => <Accuracy data={data} />}
      </QueryState>
    </section>
  );
}

function Accuracy({ data }: { data: components["schemas"]["PredictionScores"] }) {
  const all = data.sources.reduce((sum, { jobs }) => sum + jobs, 0);
  return (
    <>
      <p className="dim">
        Jobs that succeeded in the last {data.days} days. An interval is made to hold the duration
        in {percent(data.promised_coverage)} of the cases.
      </p>
      <div className={css.scroll} tabIndex={0} role="group" aria-label="Predicted durations">
        <table className={css.table}>
          <thead>
            <tr>
              <th scope="col">Predicted by</th>
              <th scope="col">Jobs</th>
              <th scope="col">Held by the interval</th>
              <th scope="col">Typical error</th>
            </tr>
          </thead>
          <tbody>
            {data.sources.map(({ source, jobs, intervals, coverage, median_error }) => (
              <tr key={source}>
                <th scope="row">{SOURCES[source] ?? source}</th>
                <td className="num">
                  {jobs.toLocaleString("en")} <span className="dim">({percent(jobs / all)})</span>
                </td>
                <td className="num">
                  {coverage === null ? "–" : percent(coverage)}{" "}
                  {intervals ? (
                    <span className="dim">of {intervals.toLocaleString("en")}</span>
                  ) : null}
                </td>
                <td className="num">{median_error === null ? "–" : percent(median_error)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {data.starts.coverage !== null ? (
        <p>
          Of {data.starts.jobs.toLocaleString("en")} jobs that waited with an interval of their
          start, {percent(data.starts.coverage)} started within it.
        </p>
      ) : null}
    </>
  );
}

const percent = (share: number) => `${Math.round(share * 100)}%`;

/** The nodes it is about are looked at, drained or declared lost on the page of the cluster. */
function AlertAction({ alert }: { alert: Alert }) {
  if (!("nodes" in alert.details)) return null;
  return (
    <LinkButton to="/cluster" variant="default">
      Open the cluster
    </LinkButton>
  );
}

function waitingLabel(bytes: number): string | null {
  return bytes > 0 ? `Nodes hold back ${formatBytes(bytes)} of output` : null;
}
