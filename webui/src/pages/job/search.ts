import { oneOf, text } from "@/app/search";
import type { Stream } from "@/api/types";

export const TABS = ["tasks", "logs", "metrics", "events", "spec"] as const;
export type Tab = (typeof TABS)[number];

/** What the address of a job holds: the tab, and for logs whose. */
export interface JobSearch {
  tab?: Tab;
  rank?: number;
  stream?: Stream;
}

export function jobSearch(search: Record<string, unknown>): JobSearch {
  const rank = text(search["rank"]);
  return {
    tab: oneOf(search["tab"], TABS),
    rank: rank && /^\d+$/.test(rank) ? Number(rank) : undefined,
    stream: oneOf(search["stream"], ["stdout", "stderr"] as const),
  };
}
