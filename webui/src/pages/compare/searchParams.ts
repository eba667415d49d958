import { enumParam, textParam } from "@/format/searchParams";

export const AXES = ["step", "elapsed"] as const;

/** What the address of a comparison holds: the ids of jobs, or the tags of jobs, as comma lists. */
export interface CompareSearch {
  jobs?: string;
  tag?: string;
  x?: (typeof AXES)[number];
  log?: boolean;
  metric?: string;
}

export function compareSearch(search: Record<string, unknown>): CompareSearch {
  return {
    jobs: textParam(search["jobs"]),
    tag: textParam(search["tag"]),
    x: enumParam(search["x"], AXES),
    log: search["log"] === true || undefined,
    metric: textParam(search["metric"]),
  };
}
