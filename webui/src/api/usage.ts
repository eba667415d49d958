import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { components, paths } from "./schema";

type Schemas = components["schemas"];

/** Sums of GPU time; all times are GPU-seconds. */
export type Sums = Schemas["Sums"];
export type UsageRow = Schemas["UsageRow"];
export type Usage = Schemas["Usage"];
export type Budget = Schemas["Budget"];
export type Report = Schemas["Report"];
export type UsageQuery = NonNullable<paths["/api/v1/usage"]["get"]["parameters"]["query"]>;

const MOST_ROWS = 1000;

export const usage = (query: UsageQuery) =>
  queryOptions({
    queryKey: ["usage", query],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/usage", { params: { query: { limit: MOST_ROWS, ...query } }, signal }),
      ),
  });

/** Address of the same sums as CSV. */
export function usageExport(query: UsageQuery): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)]));
  return `/api/v1/usage/export?${text}`;
}

export const budget = (name: string) =>
  queryOptions({
    queryKey: ["budget", name],
    queryFn: () =>
      unwrap(client.GET("/api/v1/virtual-clusters/{name}/budget", { params: { path: { name } } })),
  });

/** `gpu_hours` null: without a limit. */
export function setBudget(name: string, gpu_hours: number | null) {
  const params = { path: { name } };
  return gpu_hours === null
    ? unwrap(client.DELETE("/api/v1/virtual-clusters/{name}/budget", { params }))
    : unwrap(client.PUT("/api/v1/virtual-clusters/{name}/budget", { params, body: { gpu_hours } }));
}

export const report = (name: string, month: string) =>
  queryOptions({
    queryKey: ["usage-report", name, month],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/virtual-clusters/{name}/report", {
          params: { path: { name }, query: { month } },
          signal,
        }),
      ),
  });

export function reportExport(name: string, month: string): string {
  return `/api/v1/virtual-clusters/${encodeURIComponent(name)}/report/export?month=${month}`;
}
