import { text } from "@/app/search";
import type { JobFilter } from "@/api/jobs";
import type { JobState } from "@/api/types";

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
  order?: string;
  cursor?: string;
}

export function jobsSearch(search: Record<string, unknown>): JobsSearch {
  const states = statesOf(text(search["state"]));
  return {
    state: states.length > 0 ? states.join(",") : undefined,
    vc: text(search["vc"]),
    owner: text(search["owner"]),
    q: text(search["q"]),
    tag: text(search["tag"]),
    order: text(search["order"]),
    cursor: text(search["cursor"]),
  };
}

/** Known states of a comma list, in their usual order. */
export function statesOf(list: string | undefined): JobState[] {
  const wanted = new Set(list?.split(","));
  return JOB_STATES.filter((state) => wanted.has(state));
}

export function isFiltered(search: JobsSearch): boolean {
  return Boolean(search.state ?? search.vc ?? search.owner ?? search.q ?? search.tag);
}

export function toFilter(search: JobsSearch): JobFilter {
  const filter: JobFilter = {
    state: search.state,
    virtual_cluster: search.vc,
    owner: search.owner,
    search: search.q,
    tag: search.tag,
    ordering: search.order ?? NEWEST_FIRST,
    cursor: search.cursor,
  };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}
