import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { components } from "./schema";

export type UserMetrics = components["schemas"]["UserMetrics"];
export type UserMetric = components["schemas"]["UserMetric"];
export type Comparison = components["schemas"]["Compare"];
export type Run = components["schemas"]["Run"];

/** As many as the server compares at a time. */
export const MOST_RUNS = 20;
const REFRESH_MS = 5000;

/** What a job measured itself; read again while more may follow. */
export const userMetrics = (id: string, running: boolean) =>
  queryOptions({
    queryKey: ["user-metrics", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{id}/metrics/user", { params: { path: { id } }, signal })),
    refetchInterval: ({ state }) => {
      const data = state.data;
      if (data && !data.asked) return false;
      return running || data?.attempts.some((one) => one.reading) ? REFRESH_MS : false;
    },
  });

/** Jobs side by side: these, or else the newest ones with all of these tags. */
export const comparison = (jobs: string, tag: string) =>
  queryOptions({
    queryKey: ["compare", jobs, tag],
    queryFn: ({ signal }) => {
      const query = jobs ? { jobs } : { tag };
      return unwrap(client.GET("/api/v1/jobs/compare", { params: { query }, signal }));
    },
    placeholderData: (previous) => previous,
    refetchInterval: ({ state }) =>
      state.data?.runs.some((run) => run.state === "RUNNING") ? 2 * REFRESH_MS : false,
  });
