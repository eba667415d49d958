import { Button } from "@mantine/core";
import { pluralize } from "@/format/numbers";
import { formatClock } from "@/format/time";
import { Icon } from "@/ui/Icon";
import type { LogView } from "./LogReader";
import css from "./LogStatusBar.module.css";

interface Props {
  view: LogView;
  follow: boolean;
  onStart: () => void;
  onEnd: () => void;
  onEarlier: () => void;
}

/** Which part of the log is in memory, and the ways to its ends. */
export function LogStatusBar({ view, follow, onStart, onEnd, onEarlier }: Props) {
  return (
    <div className={css.foot}>
      {/* That it ended, or that the connection is lost; never the lines themselves. */}
      <span className={css.state} data-live={(follow && !view.complete) || undefined} role="status">
        {view.error && view.lines.length > 0
          ? "Connection lost; trying again"
          : positionText(view, follow)}
      </span>
      <span className={css.held}>{heldText(view)}</span>
      <span className={css.ways}>
        {view.atStart || view.lines.length === 0 ? null : (
          <JumpButton onClick={onEarlier} busy={view.busy === "earlier"}>
            Load earlier
          </JumpButton>
        )}
        <JumpButton onClick={onStart} icon="top">
          Start
        </JumpButton>
        <JumpButton onClick={onEnd} icon="bottom" lit={follow}>
          {view.complete ? "End" : "Follow"}
        </JumpButton>
      </span>
    </div>
  );
}

interface JumpButtonProps {
  onClick: () => void;
  icon?: "top" | "bottom";
  busy?: boolean;
  lit?: boolean;
  children: string;
}

function JumpButton({ onClick, icon, busy, lit, children }: JumpButtonProps) {
  return (
    <Button
      size="compact-xs"
      variant={lit ? "light" : "subtle"}
      color={lit ? "honey" : "gray"}
      aria-pressed={lit}
      loading={busy}
      leftSection={icon ? <Icon name={icon} size={13} /> : null}
      onClick={onClick}
    >
      {children}
    </Button>
  );
}

function positionText(view: LogView, follow: boolean): string {
  if (view.complete) return "End of log";
  return follow ? "Following" : "Not following";
}

function heldText(view: LogView): string {
  const [first, last] = [view.lines[0], view.lines.at(-1)];
  if (!first || !last) return "";
  const lines = pluralize(view.lines.length, "line");
  const whole = view.atStart && view.atEnd ? "" : " shown";
  // Pages are in the order in which they arrived, which is nearly that of their times.
  const [from, to] = [Math.min(first.at, last.at), Math.max(first.at, last.at)];
  const [start, end] = [formatClock(from), formatClock(to)];
  return `${lines}${whole}, ${start === end ? start : `${start} to ${end}`}`;
}
