import { useElementSize } from "@mantine/hooks";
import { useState } from "react";
import { useNow } from "@/format/now";
import { count } from "@/format/size";
import { StateIcon } from "@/ui/StateIcon";
import { ticks, toX } from "../time/scale";
import { tickLabel } from "../time/words";
import { BarCard } from "./BarCard";
import { spanOf, type Bar } from "./bars";
import { JobName } from "./JobName";
import { Track } from "./Track";
import { barWords } from "./words";
import css from "./TimeLine.module.css";

const TICK_ROOM = 60;
const MOST_TICKS = 10;
/** Where the page has no size, in tests, a line of this width is drawn. */
const FALLBACK_WIDTH = 800;
const FEW = 24;
/** Closer to "now" or to the edge a label would be cut. */
const LABEL_ROOM = 34;
const EDGE_ROOM = 18;

/** Who runs until when, and who starts then; a row for each job. */
export function TimeLine({ bars }: { bars: Bar[] }) {
  const now = useNow();
  const { ref, width: measured } = useElementSize();
  const [all, setAll] = useState(false);
  const [over, setOver] = useState<{ bar: Bar; place: DOMRect } | null>(null);
  const width = measured || FALLBACK_WIDTH;
  const shown = all ? bars : bars.slice(0, FEW);
  const span = spanOf(shown, now);
  const marks = ticks(span, Math.min(MOST_TICKS, Math.floor(width / TICK_ROOM)));
  const nowX = toX(now, span, width);
  const labels = marks
    .map((time) => ({ time, x: toX(time, span, width) }))
    .filter(({ x }) => Math.abs(x - nowX) > LABEL_ROOM && x > EDGE_ROOM && x < width - EDGE_ROOM);

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
              <JobName job={bar.job} className="clip" />
              <span className={css.gpus} title={count(bar.job.gpus, "GPU")}>
                {bar.job.gpus}
              </span>
              <span className="sr-only">{barWords(bar, now)}</span>
            </span>
            <Track
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
          Show {count(bars.length - shown.length, "more job")}
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
