import { useElementSize } from "@mantine/hooks";
import { useState } from "react";
import { capitalize } from "@/format/names";
import { Detail, HoverCard } from "@/ui/HoverCard";
import { pluralize } from "@/format/numbers";
import { useNow } from "@/format/useNow";
import { StateIcon } from "@/ui/StateIcon";
import { tickLabel, ticks, toX } from "../timeAxis";
import { QueuedJobName, queuedJobName } from "./QueuedJobName";
import { TimelineTrack } from "./TimelineTrack";
import { type Bar, isLate, spanOf } from "./bars";
import { barText } from "./labels";
import css from "./Timeline.module.css";

const TICK_SPACE = 60;
const MAX_TICKS = 10;
/** Where the page has no size, in tests, a line of this width is drawn. */
const FALLBACK_WIDTH = 800;
const FEW_JOBS = 24;
/** Closer to "now" or to the edge a label would be cut. */
const LABEL_SPACE = 34;
const EDGE_SPACE = 18;

/** Who runs until when, and who starts then; a row for each job. */
export function Timeline({ bars }: { bars: Bar[] }) {
  const now = useNow();
  const { ref, width: measured } = useElementSize();
  const [all, setAll] = useState(false);
  const [over, setOver] = useState<{ bar: Bar; place: DOMRect } | null>(null);
  const width = measured || FALLBACK_WIDTH;
  const shown = all ? bars : bars.slice(0, FEW_JOBS);
  const span = spanOf(shown, now);
  const marks = ticks(span, Math.min(MAX_TICKS, Math.floor(width / TICK_SPACE)));
  const nowX = toX(now, span, width);
  const labels = marks
    .map((time) => ({ time, x: toX(time, span, width) }))
    .filter(
      ({ x }) => Math.abs(x - nowX) > LABEL_SPACE && x > EDGE_SPACE && x < width - EDGE_SPACE,
    );

  return (
    <div className={css.line} onPointerLeave={() => setOver(null)}>
      <div className={css.axis} aria-hidden="true">
        <span />
        <div ref={ref} className={css.scale}>
          {labels.map(({ time, x }) => (
            <span key={time} className={css.tick} style={{ left: x }}>
              {tickLabel(time)}
            </span>
          ))}
          <span className={css.now} style={{ left: nowX }}>
            now
          </span>
        </div>
      </div>
      <ol className={css.rows}>
        {shown.map((bar, at) => (
          <li key={bar.job.id ?? at} className={css.row} data-over={over?.bar === bar || undefined}>
            <span className={css.name}>
              <StateIcon state={iconOf(bar)} size={13} />
              <QueuedJobName job={bar.job} className="clip" />
              <span className={css.gpus} title={pluralize(bar.job.gpus, "GPU")}>
                {bar.job.gpus}
              </span>
              <span className="sr-only">{barText(bar, now)}</span>
            </span>
            <TimelineTrack
              bar={bar}
              span={span}
              width={width}
              marks={marks}
              now={now}
              onOver={(place) => setOver(place && { bar, place })}
            />
          </li>
        ))}
      </ol>
      {bars.length > shown.length ? (
        <button type="button" className={css.more} onClick={() => setAll(true)}>
          Show {pluralize(bars.length - shown.length, "more job")}
        </button>
      ) : null}
      {over ? <BarCard {...over} now={now} /> : null}
    </div>
  );
}

/** A job that is placed but does not run yet counts as waiting in the list of jobs, not here. */
function iconOf({ certainty, job }: Bar) {
  return certainty === "running" && job.state === "WAITING" ? "PREPARING" : job.state;
}

/** What the time line knows of one job. */
function BarCard({ bar, place, now }: { bar: Bar; place: DOMRect; now: number }) {
  const { job, nodes, position, opportunistic } = bar;
  const words = barText(bar, now);
  return (
    <HoverCard place={place}>
      <strong>{queuedJobName(job)}</strong>
      <span>
        {capitalize(words)}
        {isLate(bar, now) ? "; it takes longer than expected" : ""}
      </span>
      {job.preempting ? <span>It is being preempted for another job.</span> : null}
      {job.downgraded ? <span>It was guaranteed: {job.downgraded.message}</span> : null}
      <Detail name="Owner">{job.owner}</Detail>
      <Detail name="Size">
        {pluralize(job.gpus, "GPU")} in {pluralize(job.tasks, "task")}
      </Detail>
      <Detail name="Priority">
        {job.priority_class} {job.priority}
        {opportunistic ? ", opportunistic" : ""}
      </Detail>
      <Detail name="Position">{position === null ? null : `${position} in the queue`}</Detail>
      <Detail name="Nodes">{nodes.join(", ")}</Detail>
    </HoverCard>
  );
}
