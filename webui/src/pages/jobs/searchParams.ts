import type { SortingState } from "@tanstack/react-table";
import type { JobFilter } from "@/api/jobs";
import type { JobState } from "@/api/types";
import type { SavedFilters } from "@/api/savedViews";
import { dayParam, textParam } from "@/format/searchParams";
import { midnight } from "@/format/time";

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
  /** Why they failed: comma list of categories, names or codes of diagnoses. */
  cause?: string;
  /** When they were submitted: a span before now such as 7d, a time of RFC 3339, or a day; both days
   * are included, in the time zone of the browser. */
  since?: string;
  until?: string;
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
    cause: textParam(search["cause"]),
    since: timeParam(search["since"]),
    until: timeParam(search["until"]),
    order: textParam(search["order"]),
    cursor: textParam(search["cursor"]),
  };
}

const SPAN = /^\d{1,4}[hdw]$/;
const RFC_3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/i;

export function isSpan(value: string): boolean {
  return SPAN.test(value);
}

/** Whether it is a time of RFC 3339, such as 2026-11-23T08:00:00Z. */
export function isTime(value: string): boolean {
  return RFC_3339.test(value) && !Number.isNaN(Date.parse(value));
}

function timeParam(value: unknown): string | undefined {
  const text = textParam(value);
  return text && (isSpan(text) || isTime(text)) ? text : dayParam(value);
}

/** A bound as the API reads it: a day by its beginning, or that of the one so many days later. */
function bound(value: string | undefined, later: number): string | undefined {
  const day = dayParam(value);
  return day ? midnight(day, later) : value;
}

/** Known states of a comma list, in their usual order. */
export function statesOf(list: string | undefined): JobState[] {
  const wanted = new Set(list?.split(","));
  return JOB_STATES.filter((state) => wanted.has(state));
}

export function isFiltered(search: JobsSearch): boolean {
  return Object.values({ ...search, order: undefined, cursor: undefined }).some(Boolean);
}

/** What a saved view keeps of the address: spans and days as they are, no page. */
export function toSaved(search: JobsSearch): SavedFilters {
  return present({
    state: search.state,
    virtual_cluster: search.vc,
    owner: search.owner,
    search: search.q,
    tag: search.tag,
    shared: search.shared,
    cause: search.cause,
    since: search.since,
    until: search.until,
    ordering: search.order,
  });
}

/** The address of a saved view. */
export function fromSaved(filters: SavedFilters): JobsSearch {
  const { virtual_cluster: vc, search: q, ordering: order, ...rest } = filters;
  return present(jobsSearch({ ...rest, vc, q, order }));
}

export function toFilter(search: JobsSearch): JobFilter {
  return present({
    ...toSaved(search),
    since: bound(search.since, 0),
    until: bound(search.until, 1),
    ordering: search.order ?? NEWEST_FIRST,
    cursor: search.cursor,
  });
}

function present<T extends object>(all: T): T {
  return Object.fromEntries(
    Object.entries(all).filter(([, value]) => value !== undefined && value !== ""),
  ) as T;
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
