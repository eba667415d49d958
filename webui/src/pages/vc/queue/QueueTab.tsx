import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { vcQueue, type WaitingJob } from "@/api/virtualClusters";
import { pluralize } from "@/format/numbers";
import { useNow } from "@/format/useNow";
import { useLiveQueries, usePoll } from "@/live/live";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { LinkButton } from "@/ui/LinkButton";
import { ShowMore } from "@/ui/ShowMore";
import { SkeletonRows } from "@/ui/Skeleton";
import { RowsExport } from "@/ui/table/TableExport";
import { type Column, type SortValue } from "@/ui/table/columns";
import { StaleNote } from "@/ui/StaleNote";
import { QueuedJobName } from "./QueuedJobName";
import { Timeline } from "./Timeline";
import { TimelineLegend } from "./TimelineLegend";
import { barOfRunning, barOfWaiting } from "./bars";
import { startColumn } from "./labels";
import css from "./QueueTab.module.css";

/** Who runs and who waits, and when each will start. */
export function QueueTab({ name }: { name: string }) {
  const query = vcQueue(name);
  const queue = useInfiniteQuery({ ...query, refetchInterval: usePoll() });
  useLiveQueries("jobs", "", [query.queryKey], 1500);
  const pages = queue.data?.pages;
  const running = useMemo(() => pages?.flatMap((page) => page.running) ?? [], [pages]);
  const waiting = useMemo(() => pages?.flatMap((page) => page.waiting) ?? [], [pages]);
  const totals = pages?.at(-1);
  const bars = useMemo(
    () => [...running.map(barOfRunning), ...waiting.map(barOfWaiting)],
    [running, waiting],
  );

  if (queue.isPending) return <SkeletonRows rows={8} />;
  if (!queue.data) {
    return <ErrorState error={queue.error} what="queue" retry={() => void queue.refetch()} />;
  }
  const note = <StaleNote query={queue} what="queue" />;
  if (bars.length === 0) {
    return (
      <>
        {note}
        <Idle />
      </>
    );
  }
  return (
    <div className={css.page}>
      {note}
      <section aria-label="Timeline">
        <header className={css.head}>
          <h2>Timeline</h2>
          <span className="dim">
            {pluralize(totals?.running_total ?? 0, "job runs", "jobs run")},{" "}
            {pluralize(totals?.waiting_total ?? 0, "waits", "wait")}
          </span>
          <TimelineLegend />
        </header>
        <Timeline bars={bars} />
      </section>
      <section aria-label="Waiting jobs">
        <header className={css.head}>
          <h2>Waiting</h2>
        </header>
        {waiting.length > 0 ? (
          <>
            <WaitingTable waiting={waiting} />
            <RowsExport
              name={`queue-of-${name}`}
              label="Waiting jobs"
              columns={FILE_COLUMNS}
              rows={waiting}
            />
          </>
        ) : (
          <p className={css.none}>No jobs are waiting.</p>
        )}
        <ShowMore list={queue} className={css.more} />
      </section>
    </div>
  );
}

function Idle() {
  return (
    <EmptyState
      title="Nothing runs and nothing waits"
      action={
        <LinkButton to="/jobs/new" variant="default">
          New job
        </LinkButton>
      }
    >
      All GPUs of this virtual cluster are there for the next job.
    </EmptyState>
  );
}

const fileColumn = (
  header: string,
  exportValue: (each: WaitingJob) => SortValue,
): Column<WaitingJob> => ({ id: header, header, width: "", cell: () => null, exportValue });

const FILE_COLUMNS = [
  fileColumn("position", (each) => each.position),
  fileColumn("job", (each) => each.job.name),
  fileColumn("owner", (each) => each.job.owner),
  fileColumn("priority", (each) => each.job.priority),
  fileColumn("needs", (each) => each.needs_words),
  fileColumn("reason", (each) => each.reason?.message),
  fileColumn("start", (each) => each.reserved?.start ?? each.expected_start),
];

/** The queue in its order: who needs what, why it waits, and when it will start. */
function WaitingTable({ waiting }: { waiting: WaitingJob[] }) {
  const now = useNow();
  return (
    <table className={css.table}>
      <thead>
        <tr>
          <th scope="col">
            <span className="sr-only">Position</span>#
          </th>
          <th scope="col">Job</th>
          <th scope="col">Why it waits</th>
          <th scope="col">Start</th>
        </tr>
      </thead>
      <tbody>
        {waiting.map((each) => (
          <Row key={each.position} waiting={each} now={now} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ waiting, now }: { waiting: WaitingJob; now: number }) {
  const { job, position, needs_words, reason, reserved } = waiting;
  const start = startColumn(waiting, now);
  return (
    <tr>
      <td className={css.position}>{position}</td>
      <td>
        <QueuedJobName job={job} className={css.name} />
        <span className={css.sub}>{needs_words}</span>
        <span className={css.sub}>
          {job.owner ? `${job.owner} · ` : ""}
          {job.priority_class} {job.priority}
        </span>
      </td>
      <td className={css.why}>
        {reason?.message ?? (job.id ? "The scheduler looks at it in its next round." : "–")}
      </td>
      <td>
        <span className={css.start}>
          {start.at}
          {reserved ? <span className={css.reserved}>reserved</span> : null}
        </span>
        <span className={css.sub}>{start.far}</span>
        {start.where ? <span className={css.sub}>on {start.where}</span> : null}
      </td>
    </tr>
  );
}
