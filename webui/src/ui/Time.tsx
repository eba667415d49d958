import { ago, duration, fullTime, span } from "@/format/time";
import { useNow } from "@/format/now";

/** How long ago, renewed while it is on the screen; the exact time on hover. */
export function Ago({ at }: { at: string }) {
  const now = useNow();
  return (
    <time className="num" dateTime={at} title={fullTime(at)}>
      {ago(at, now)}
    </time>
  );
}

/** From start to end, counting on while there is no end; a dash before the start. */
export function Elapsed({ start, end }: { start: string | null; end: string | null }) {
  const now = useNow();
  const seconds = span(start, end, now);
  if (seconds === null) return <span className="dim">–</span>;
  return <span className="num">{duration(end ? seconds : Math.floor(seconds))}</span>;
}
