import { oneOf, text } from "@/app/search";
import type { Stream } from "@/api/types";

export const TABS = ["tasks", "logs", "metrics", "attempts", "events", "spec", "terminal"] as const;
export type Tab = (typeof TABS)[number];

const LONGEST_FIND = 256;

/** What the address of a job holds: the tab; for logs whose, and what to look for in them. */
export interface JobSearch {
  tab?: Tab;
  rank?: number;
  stream?: Stream;
  find?: string;
}

export function jobSearch(search: Record<string, unknown>): JobSearch {
  const rank = text(search["rank"]);
  return {
    tab: oneOf(search["tab"], TABS),
    rank: rank && /^\d+$/.test(rank) ? Number(rank) : undefined,
    stream: oneOf(search["stream"], ["stdout", "stderr"] as const),
    find: text(search["find"])?.slice(0, LONGEST_FIND),
  };
}
