import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { events } from "@/api/jobs";
import type { Job, JobEvent } from "@/api/types";
import { formatClock, formatDateTime } from "@/format/time";
import { usePoll } from "@/live/live";
import { EmptyState } from "@/ui/EmptyState";
import { FormattedMessage } from "@/ui/FormattedMessage";
import { QueryState } from "@/ui/QueryState";
import { ListExport } from "@/ui/table/TableExport";
import css from "./EventsTab.module.css";

export function EventsTab({ job }: { job: Job }) {
  const list = useQuery({ ...events(job.id), refetchInterval: usePoll() });
  return (
    <QueryState query={list} what="events" rows={6}>
      {(data) => {
        if (data.length === 0) return <EmptyState title="Nothing happened yet" />;
        return (
          <>
            <ol className={css.events} tabIndex={0} aria-label="Events">
              {data.toReversed().map((event) => (
                <Entry key={event.id} event={event} />
              ))}
            </ol>
            <ListExport list={`jobs/${job.id}/events`} label="Events" />
          </>
        );
      }}
    </QueryState>
  );
}

function Entry({ event }: { event: JobEvent }) {
  return (
    <li className={css.event}>
      <time className={css.time} dateTime={event.at} title={formatDateTime(event.at)}>
        {formatClock(event.at)}
      </time>
      <span className={css.mark} data-tone={tone(event.kind)} aria-hidden="true" />
      <div className={css.what}>
        <p>
          <FormattedMessage text={event.message} />
          <Repeated event={event} />
        </p>
        <p className={css.small}>
          {event.kind}
          {event.actor ? <> · by {event.actor}</> : null}
          <Preemptor data={event.data} />
        </p>
      </div>
    </li>
  );
}

/** Of a row that stands for several events of one kind: how many, since when. */
function Repeated({ event: { at, count, first_at } }: { event: JobEvent }) {
  if (count <= 1) return null;
  return (
    <span className={css.repeated}>
      ×{count.toLocaleString("en")}
      {first_at ? `, first ${formatDateTime(first_at)}` : null}, last {formatClock(at)}
    </span>
  );
}

/** The job that took the place, if one may see it. */
function Preemptor({ data: { by, name } }: { data: JobEvent["data"] }) {
  if (typeof by !== "string" || typeof name !== "string") return null;
  return (
    <>
      {" "}
      ·{" "}
      <Link to="/jobs/$id" params={{ id: by }} className="link">
        open {name}
      </Link>
    </>
  );
}

function tone(kind: string): string {
  if (/fail|lost|error|oom/.test(kind)) return "bad";
  if (/succeed|restor/.test(kind)) return "good";
  if (/wait|not_mounted|retr|requeue|stop|preempt|evict|downgrad/.test(kind)) return "mind";
  return "plain";
}
