import { enumParam, textParam } from "@/format/searchParams";
import type { Stream } from "@/api/types";

export const TABS = ["tasks", "logs", "metrics", "attempts", "events", "spec", "terminal"] as const;
export type Tab = (typeof TABS)[number];

const LONGEST_FIND = 256;

/** What the address of a job holds: the tab; for logs whose, of which placement of the gang,
 * what to look for in them, or the line to open them at. */
export interface JobSearch {
  tab?: Tab;
  rank?: number;
  attempt?: number;
  stream?: Stream;
  find?: string;
  /** A line of the log to open it at: what `lineLink` makes. */
  line?: string;
  /** The last lines of each rank instead of the merged log, from rank `first` on. */
  view?: "ranks";
  first?: number;
  /** Two attempts side by side: "1-2". */
  compare?: string;
}

export function jobSearch(search: Record<string, unknown>): JobSearch {
  return {
    tab: enumParam(search["tab"], TABS),
    rank: whole(search["rank"]),
    attempt: whole(search["attempt"]) || undefined,
    stream: enumParam(search["stream"], ["stdout", "stderr"] as const),
    find: textParam(search["find"])?.slice(0, LONGEST_FIND),
    line: textParam(search["line"])?.slice(0, LONGEST_FIND),
    view: enumParam(search["view"], ["ranks"] as const),
    first: whole(search["first"]) || undefined,
    compare: /^[1-9]\d{0,8}-[1-9]\d{0,8}$/.exec(textParam(search["compare"]) ?? "")?.[0],
  };
}

function whole(value: unknown): number | undefined {
  const digits = textParam(value);
  return digits && /^\d{1,9}$/.test(digits) ? Number(digits) : undefined;
}
