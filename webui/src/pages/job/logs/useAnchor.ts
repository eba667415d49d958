import type { Virtualizer } from "@tanstack/react-virtual";
import { useLayoutEffect, useRef } from "react";
import type { Line } from "./assemble";

/** Keeps the line at the top of the screen in its place while lines come or go above it. */
export function useAnchor(
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
