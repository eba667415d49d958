import { useQuery } from "@tanstack/react-query";
import { platform } from "@/api/operations";
import type { components } from "@/api/schema";
import { formatBytes, formatBytesOf } from "@/format/numbers";
import { formatDuration } from "@/format/time";
import { usePoll } from "@/live/live";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { QueryState } from "@/ui/QueryState";
import { RelativeTime } from "@/ui/Time";
import css from "./HealthPage.module.css";

type Platform = components["schemas"]["Platform"];

/** What the platform consists of now: processes, queues, database, stores, agents, last backup. */
export function PlatformState() {
  const query = useQuery({ ...platform, refetchInterval: usePoll(15_000) });
  return (
    <section aria-labelledby="platform" className={css.part}>
      <h2 id="platform">Platform</h2>
      <QueryState query={query} what="state of the platform" rows={3} height={48}>
        {(data) => (
          <>
            <Facts data={data} />
            <Processes data={data} />
            <Tables data={data} />
          </>
        )}
      </QueryState>
    </section>
  );
}

function Facts({ data }: { data: Platform }) {
  const { database, redis, store, last_backup: backup } = data;
  return (
    <DescriptionList>
      <DescriptionItem name="Version">{data.version}</DescriptionItem>
      <DescriptionItem name="Scheduler">
        {data.planned_at ? (
          <>
            planned <RelativeTime at={data.planned_at} />
          </>
        ) : (
          "does not plan"
        )}
      </DescriptionItem>
      {data.queues.map(({ name, messages, lag_s }) => (
        <DescriptionItem key={name} name={`Queue ${name}`}>
          {messages} waiting{lag_s ? `, oldest ${formatDuration(lag_s)}` : ""}
        </DescriptionItem>
      ))}
      <DescriptionItem name="PostgreSQL">
        {database.version}, {formatBytes(database.bytes)}
      </DescriptionItem>
      <DescriptionItem name="Connections">
        {database.connections} of {database.max_connections}
      </DescriptionItem>
      <DescriptionItem name="Redis or Valkey">
        {redis
          ? `${redis.version}, ${formatBytesOf(redis.bytes, redis.max_bytes || null)}`
          : "does not answer"}
      </DescriptionItem>
      <DescriptionItem name="Logs and files">
        {store.total_bytes
          ? `${formatBytes(store.free_bytes ?? 0)} of ${formatBytes(store.total_bytes)} free`
          : store.place}
      </DescriptionItem>
      <DescriptionItem name="Nodes">{counts(data.nodes).toLowerCase()}</DescriptionItem>
      <DescriptionItem name="Agents">{counts(data.agents, " of ")}</DescriptionItem>
      <DescriptionItem name="Last backup">
        {backup ? <RelativeTime at={backup.at} /> : "none recorded"}
      </DescriptionItem>
    </DescriptionList>
  );
}

/** "12 ONLINE, 1 LOST", the most first. */
function counts(of: Record<string, number>, between = " "): string {
  const rows = Object.entries(of).sort(([, a], [, b]) => b - a);
  return rows.map(([name, n]) => `${n}${between}${name}`).join(", ") || "none";
}

function Processes({ data }: { data: Platform }) {
  if (data.processes.length === 0) return null;
  return (
    <div className={css.scroll} tabIndex={0} role="group" aria-label="Processes">
      <table className={css.table}>
        <thead>
          <tr>
            <th scope="col">Process</th>
            <th scope="col">Host</th>
            <th scope="col">Version</th>
            <th scope="col">Started</th>
            <th scope="col">Clock</th>
          </tr>
        </thead>
        <tbody>
          {data.processes.map((one) => (
            <tr key={`${one.host}/${one.pid}/${one.kind}`}>
              <th scope="row">{one.kind}</th>
              <td>{one.host}</td>
              <td>{one.version}</td>
              <td>
                <RelativeTime at={one.started_at} />
              </td>
              <td className="num">{signed(one.clock_ahead_s)} s</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** "+0.4", "−1.2", and "0.0" without a sign. */
function signed(value: number): string {
  const size = Math.abs(value).toFixed(1);
  return Number(size) === 0 ? size : `${value < 0 ? "−" : "+"}${size}`;
}

function Tables({ data }: { data: Platform }) {
  return (
    <details className={css.details}>
      <summary>Largest tables</summary>
      <div className={css.scroll} tabIndex={0} role="group" aria-label="Largest tables">
        <table className={css.table}>
          <thead>
            <tr>
              <th scope="col">Table</th>
              <th scope="col">Size</th>
              <th scope="col">Rows</th>
              <th scope="col">Dead rows</th>
              <th scope="col">Vacuumed</th>
            </tr>
          </thead>
          <tbody>
            {data.tables.map((one) => (
              <tr key={one.name}>
                <th scope="row">{one.name}</th>
                <td className="num">{formatBytes(one.bytes)}</td>
                <td className="num">{one.rows.toLocaleString("en")}</td>
                <td className="num">{one.dead_rows.toLocaleString("en")}</td>
                <td>{one.vacuumed_at ? <RelativeTime at={one.vacuumed_at} /> : "never"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
