import { type Plot, PLOTS } from "@/features/usage/UsageByDay";
import { enumParam, textParam } from "@/format/searchParams";

export const GROUPINGS = ["user", "vc", "job", "gpu_model", "day"] as const;
export type Grouping = (typeof GROUPINGS)[number];

export const RANGES = ["7d", "30d", "90d", "365d"] as const;
export type Range = (typeof RANGES)[number];

/** What the address of the page of usage holds: which usage it shows, and how. */
export interface UsageSearch {
  by?: Grouping;
  range?: Range;
  plot?: Plot;
  vc?: string;
  /** Only rows whose name contains it. */
  q?: string;
}

export function usageSearch(search: Record<string, unknown>): UsageSearch {
  return {
    by: enumParam(search["by"], GROUPINGS),
    range: enumParam(search["range"], RANGES),
    plot: enumParam(search["plot"], PLOTS),
    vc: textParam(search["vc"]),
    q: textParam(search["q"]),
  };
}
