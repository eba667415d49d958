import type { SortingState } from "@tanstack/react-table";
import type { JobFilter } from "@/api/jobs";
import type { JobState } from "@/api/types";
import { textParam } from "@/format/searchParams";

export const JOB_STATES: JobState[] = [
  "WAITING",
  "RUNNING",
  "STOPPING",
  "SUCCEEDED",
  "FAILED",
  "STOPPED",
];

export const NEWEST_FIRST = "-submitted_at";

/** What the address of the job list holds. `owner` is a user name; absent: everybody's. */
export interface JobsSearch {
  state?: string;
  vc?: string;
  owner?: string;
  q?: string;
  /** Comma list: jobs that have all of them. */
  tag?: string;
  /** Only jobs that others shared with the user. */
  shared?: boolean;
  order?: string;
  cursor?: string;
}

export function jobsSearch(search: Record<string, unknown>): JobsSearch {
  const states = statesOf(textParam(search["state"]));
  return {
    state: states.length > 0 ? states.join(",") : undefined,
    vc: textParam(search["vc"]),
    owner: textParam(search["owner"]),
    q: textParam(search["q"]),
    tag: textParam(search["tag"]),
    shared: search["shared"] === true || undefined,
    order: textParam(search["order"]),
    cursor: textParam(search["cursor"]),
  };
}

/** Known states of a comma list, in their usual order. */
export function statesOf(list: string | undefined): JobState[] {
  const wanted = new Set(list?.split(","));
  return JOB_STATES.filter((state) => wanted.has(state));
}

export function isFiltered(search: JobsSearch): boolean {
  return Boolean(
    search.state ?? search.vc ?? search.owner ?? search.q ?? search.tag ?? search.shared,
  );
}

export function toFilter(search: JobsSearch): JobFilter {
  const filter: JobFilter = {
    state: search.state,
    virtual_cluster: search.vc,
    owner: search.owner,
    search: search.q,
    tag: search.tag,
    shared: search.shared,
    ordering: search.order ?? NEWEST_FIRST,
    cursor: search.cursor,
  };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}

/** The API's "-name" as the table's sorting, and back. */
export function toSorting(order: string): SortingState {
  const desc = order.startsWith("-");
  return [{ id: desc ? order.slice(1) : order, desc }];
}

export function toOrder(sorting: SortingState): string | undefined {
  const [first] = sorting;
  if (!first) return undefined;
  return first.desc ? `-${first.id}` : first.id;
}
