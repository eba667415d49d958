import { oneOf } from "@/app/search";

export const TABS = ["cells", "queue", "history", "members", "settings"] as const;
export type Tab = (typeof TABS)[number];

export const RANGES = ["6h", "24h", "7d", "30d"] as const;
export type Range = (typeof RANGES)[number];

/** What the address of a virtual cluster holds: the tab, and how each is looked at. */
export interface VcSearch {
  tab?: Tab;
  /** Cells drawn over the nodes that they lie on, instead of as the virtual cluster sees them. */
  over?: "nodes";
  range?: Range;
}

export function vcSearch(search: Record<string, unknown>): VcSearch {
  return {
    tab: oneOf(search["tab"], TABS),
    over: oneOf(search["over"], ["nodes"] as const),
    range: oneOf(search["range"], RANGES),
  };
}
