import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { events } from "@/api/jobs";
import type { Job, JobEvent } from "@/api/types";
import { clock, fullTime } from "@/format/time";
import { usePoll } from "@/live/live";
import { Blank, Failure } from "@/ui/Blank";
import { SkeletonRows } from "@/ui/Skeleton";
import css from "./EventsTab.module.css";

export function EventsTab({ job }: { job: Job }) {
  const list = useQuery({ ...events(job.id), refetchInterval: usePoll() });
  if (list.isPending) return <SkeletonRows rows={6} />;
  if (!list.data)
    return <Failure error={list.error} what="events" retry={() => void list.refetch()} />;
  if (list.data.length === 0) return <Blank title="Nothing happened yet" />;
  return (
    <ol className={css.events}>
      {list.data.toReversed().map((event) => (
        <Entry key={event.id} event={event} />
      ))}
    </ol>
  );
}

function Entry({ event }: { event: JobEvent }) {
  return (
    <li className={css.event}>
      <time className={css.time} dateTime={event.at} title={fullTime(event.at)}>
        {clock(event.at)}
      </time>
      <span className={css.mark} data-tone={tone(event.kind)} aria-hidden="true" />
      <div className={css.what}>
        <p>{event.message}</p>
        <p className={css.small}>
          {event.kind}
          {event.actor ? <> · by {event.actor}</> : null}
          <Preemptor data={event.data} />
        </p>
      </div>
    </li>
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
