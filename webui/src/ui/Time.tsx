import { formatRelativeTime, formatDuration, formatDateTime, elapsedSeconds } from "@/format/time";
import { useNow } from "@/format/useNow";

/** How long ago, renewed while it is on the screen; the exact time on hover. */
export function RelativeTime({ at }: { at: string }) {
  const now = useNow();
  return (
    <time className="num" dateTime={at} title={formatDateTime(at)}>
      {formatRelativeTime(at, now)}
    </time>
  );
}

/** From start to end, counting on while there is no end; a dash before the start. */
export function ElapsedTime({ start, end }: { start: string | null; end: string | null }) {
  const now = useNow();
  const seconds = elapsedSeconds(start, end, now);
  if (seconds === null) return <span className="dim">–</span>;
  return <span className="num">{formatDuration(end ? seconds : Math.floor(seconds))}</span>;
}
