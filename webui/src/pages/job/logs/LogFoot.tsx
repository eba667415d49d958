import { Button } from "@mantine/core";
import { clock } from "@/format/time";
import { Icon } from "@/ui/Icon";
import type { LogView } from "./LogReader";
import css from "./LogFoot.module.css";

interface Props {
  view: LogView;
  follow: boolean;
  onStart: () => void;
  onEnd: () => void;
  onEarlier: () => void;
}

/** Which part of the log is in memory, and the ways to its ends. */
export function LogFoot({ view, follow, onStart, onEnd, onEarlier }: Props) {
  return (
    <div className={css.foot}>
      <span className={css.state} data-live={(follow && !view.complete) || undefined}>
        {view.error && view.lines.length > 0
          ? "Connection lost; trying again"
          : words(view, follow)}
      </span>
      <span className={css.held}>{held(view)}</span>
      <span className={css.ways}>
        {view.atStart || view.lines.length === 0 ? null : (
          <Way onClick={onEarlier} busy={view.busy === "earlier"}>
            Load earlier
          </Way>
        )}
        <Way onClick={onStart} icon="top">
          Start
        </Way>
        <Way onClick={onEnd} icon="bottom" lit={follow}>
          {view.complete ? "End" : "Follow"}
        </Way>
      </span>
    </div>
  );
}

interface WayProps {
  onClick: () => void;
  icon?: "top" | "bottom";
  busy?: boolean;
  lit?: boolean;
  children: string;
}

function Way({ onClick, icon, busy, lit, children }: WayProps) {
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

function words(view: LogView, follow: boolean): string {
  if (view.complete) return "The log is over";
  return follow ? "Following" : "Not following";
}

function held(view: LogView): string {
  const [first, last] = [view.lines[0], view.lines.at(-1)];
  if (!first || !last) return "";
  const lines = `${view.lines.length.toLocaleString("en")} lines`;
  const whole = view.atStart && view.atEnd ? "" : " shown";
  // Chunks are in the order in which they arrived, which is nearly that of their times.
  const [from, to] = [first.chunk.at, last.chunk.at].sort();
  return `${lines}${whole}, ${clock(from ?? "")} to ${clock(to ?? "")}`;
}
