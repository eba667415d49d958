import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, type CSSProperties } from "react";
import { taskName } from "@/format/names";
import type { Line } from "./assemble";
import { LogLine } from "./LogLine";
import { useAnchor } from "./useAnchor";
import css from "./LogLines.module.css";

const LINE_HEIGHT = 20;
/** Distance from an end, in pixels, at which more is read. */
const NEAR = 600;

interface Props {
  lines: readonly Line[];
  wrap: boolean;
  ranks: boolean;
  times: boolean;
  needle: string;
  /** The line to bring into view and to light up. */
  target: number | null;
  follow: boolean;
  onFollow: (follow: boolean) => void;
  onNearStart: () => void;
  onNearEnd: () => void;
}

/** The lines of a log window: only those on the screen are drawn. */
export function LogLines(props: Props) {
  const { lines, wrap, follow, target } = props;
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    getItemKey: (index) => lines[index]?.key ?? index,
    overscan: 30,
  });

  useAnchor(virtual, lines, follow);
  useLayoutEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  });
  useEffect(() => {
    if (target !== null) virtual.scrollToIndex(target, { align: "center" });
  }, [target, virtual]);
  const onScroll = useScrolling(props);

  return (
    <div
      ref={box}
      className={css.box}
      data-wrap={wrap || undefined}
      onScroll={onScroll}
      tabIndex={0}
      role="log"
      aria-label="Log"
      aria-live="off"
      style={{ "--rank-width": `${rankWidth(lines)}ch` } as CSSProperties}
    >
      <div className={css.runway} style={{ height: virtual.getTotalSize() }}>
        <div
          className={css.shown}
          style={{ transform: `translateY(${virtual.getVirtualItems()[0]?.start ?? 0}px)` }}
        >
          {virtual.getVirtualItems().map((item) => {
            const line = lines[item.index];
            return line ? (
              <div
                key={item.key}
                data-index={item.index}
                ref={wrap ? virtual.measureElement : undefined}
              >
                <LogLine
                  line={line}
                  text={line.text}
                  needle={props.needle}
                  current={item.index === target}
                  ranks={props.ranks}
                  times={props.times}
                />
              </div>
            ) : null;
          })}
        </div>
      </div>
    </div>
  );
}

/** Scrolling up stops following, reaching the end follows again; both ends ask for more. */
function useScrolling({ follow, onFollow, onNearStart, onNearEnd }: Props) {
  const before = useRef(0);
  return (event: React.UIEvent<HTMLDivElement>) => {
    const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
    const below = scrollHeight - clientHeight - scrollTop;
    const up = scrollTop < before.current - 2;
    before.current = scrollTop;
    if (follow && up && below > LINE_HEIGHT * 2) onFollow(false);
    if (!follow && !up && below < LINE_HEIGHT) onFollow(true);
    if (scrollTop < NEAR && !follow) onNearStart();
    if (below < NEAR && !follow) onNearEnd();
  };
}

function rankWidth(lines: readonly Line[]): number {
  const shown = lines.slice(-200);
  const longest = shown.reduce((most, line) => Math.max(most, taskName(line.chunk).length), 8);
  return Math.min(24, longest);
}
