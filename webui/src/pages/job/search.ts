import { oneOf, text } from "@/app/search";
import type { Stream } from "@/api/types";

export const TABS = ["tasks", "logs", "metrics", "attempts", "events", "spec", "terminal"] as const;
export type Tab = (typeof TABS)[number];

const LONGEST_FIND = 256;

/** What the address of a job holds: the tab; for logs whose, of which placement of the gang,
 * and what to look for in them. */
export interface JobSearch {
  tab?: Tab;
  rank?: number;
  attempt?: number;
  stream?: Stream;
  find?: string;
}

export function jobSearch(search: Record<string, unknown>): JobSearch {
  return {
    tab: oneOf(search["tab"], TABS),
    rank: whole(search["rank"]),
    attempt: whole(search["attempt"]) || undefined,
    stream: oneOf(search["stream"], ["stdout", "stderr"] as const),
    find: text(search["find"])?.slice(0, LONGEST_FIND),
  };
}

function whole(value: unknown): number | undefined {
  const digits = text(value);
  return digits && /^\d{1,9}$/.test(digits) ? Number(digits) : undefined;
}
