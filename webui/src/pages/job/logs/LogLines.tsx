import { defaultRangeExtractor, useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import {
  type CSSProperties,
  type KeyboardEvent,
  useCallback,
  useEffect,
  useLayoutEffect,
  type RefObject,
  useRef,
  useState,
} from "react";
import { taskName } from "@/format/names";
import { LogLine } from "./LogLine";
import type { Line } from "./assemble";
import css from "./LogLines.module.css";

const LINE_HEIGHT = 20;
/** Distance from an end, in pixels, at which more is read. */
const NEAR = 600;
/** How many lines the page keys move the focus. */
const PAGE = 20;

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
  /** Makes the address of the page lead to a line, and lights it up. */
  onLink: (index: number) => void;
  onNearStart: () => void;
  onNearEnd: () => void;
}

/** The lines of a log window: only those on the screen are drawn. */
export function LogLines(props: Props) {
  const { lines, wrap, follow, target } = props;
  const link = useRef(props.onLink);
  useLayoutEffect(() => {
    link.current = props.onLink;
  });
  // The same at each drawing: lines that did not change are not drawn again.
  const onLink = useCallback((index: number) => link.current(index), []);
  const box = useRef<HTMLDivElement>(null);
  const roving = useRovingLink(lines, box);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    getItemKey: (index) => lines[index]?.key ?? index,
    overscan: 30,
    // The line whose link has the focus stays drawn, or the focus would be lost.
    rangeExtractor: (range) => {
      const drawn = defaultRangeExtractor(range);
      const kept = roving.index;
      return kept === null || drawn.includes(kept) ? drawn : [...drawn, kept].sort((a, b) => a - b);
    },
  });

  useScrollAnchor(virtual, lines, follow);
  useLayoutEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  });
  useEffect(() => {
    if (target !== null) virtual.scrollToIndex(target, { align: "center" });
  }, [target, virtual]);
  const onScroll = useScrolling(props);
  const tabStop = roving.index ?? target ?? firstVisible(virtual);

  function onKeyDown(event: KeyboardEvent) {
    const at = (event.target as HTMLElement).dataset["link"];
    const to = at === undefined ? null : moveTo(event.key, Number(at), lines.length);
    if (to === null) return;
    event.preventDefault();
    roving.focus(to);
    virtual.scrollToIndex(to, { align: "auto" });
  }

  return (
    <div
      ref={box}
      className={css.box}
      data-wrap={wrap || undefined}
      onScroll={onScroll}
      onKeyDown={onKeyDown}
      onFocus={(event) => {
        const at = event.target.dataset["link"];
        if (at === undefined) return;
        props.onFollow(false);
        roving.hold(Number(at));
      }}
      onBlur={roving.release}
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
                  index={item.index}
                  tabStop={item.index === tabStop}
                  onLink={onLink}
                />
              </div>
            ) : null;
          })}
        </div>
      </div>
    </div>
  );
}

/** One of the lines' links takes the focus, and the arrow keys move it. The line is known by its key:
 * its index changes while earlier lines are read. */
function useRovingLink(lines: readonly Line[], box: RefObject<HTMLDivElement | null>) {
  const [held, setHeld] = useState<string | null>(null);
  const wanted = useRef(false);
  const found = held === null ? -1 : lines.findIndex((line) => line.key === held);
  const index = found < 0 ? null : found;
  useLayoutEffect(() => {
    if (!wanted.current || index === null) return;
    const link = box.current?.querySelector<HTMLElement>(`[data-link="${index}"]`);
    if (!link) return;
    wanted.current = false;
    link.focus({ preventScroll: true });
  });
  return {
    /** Null while no link has the focus. */
    index,
    hold: (at: number) => setHeld(lines[at]?.key ?? null),
    focus: (at: number) => {
      wanted.current = true;
      setHeld(lines[at]?.key ?? null);
    },
    release: () => {
      if (!wanted.current) setHeld(null);
    },
  };
}

/** The line to which a key moves the focus, or null for a key that moves it nowhere. */
function moveTo(key: string, at: number, lines: number): number | null {
  switch (key) {
    case "ArrowDown":
      return Math.min(at + 1, lines - 1);
    case "ArrowUp":
      return Math.max(at - 1, 0);
    case "PageDown":
      return Math.min(at + PAGE, lines - 1);
    case "PageUp":
      return Math.max(at - PAGE, 0);
    default:
      return null;
  }
}

function firstVisible(virtual: Virtualizer<HTMLDivElement, Element>): number | undefined {
  const top = virtual.scrollOffset ?? 0;
  return virtual.getVirtualItems().find((item) => item.start >= top)?.index;
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

/** Keeps the line at the top of the screen in its place while lines come or go above it. */
function useScrollAnchor(
  virtual: Virtualizer<HTMLDivElement, Element>,
  lines: readonly Line[],
  follow: boolean,
): void {
  const anchor = useRef<{ key: string; within: number; index: number } | null>(null);

  useLayoutEffect(() => {
    const held = anchor.current;
    if (held && !follow && lines[held.index]?.key !== held.key) {
      const index = lines.findIndex((line) => line.key === held.key);
      const place = index < 0 ? undefined : virtual.getOffsetForIndex(index, "start");
      if (place) virtual.scrollToOffset(place[0] + held.within);
    }
    const top = virtual.scrollOffset ?? 0;
    const item = virtual.getVirtualItems().find((each) => each.end > top);
    const line = item && lines[item.index];
    anchor.current = line ? { key: line.key, within: top - item.start, index: item.index } : null;
  });
}
