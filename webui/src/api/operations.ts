import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { fetchAllPages } from "./pagination";
import type { components } from "./schema";

type NewRule = components["schemas"]["AlertRuleBodyRequest"];
type RuleChanges = components["schemas"]["PatchedAlertRuleChangesRequest"];

export const platform = queryOptions({
  queryKey: ["health", "platform"],
  queryFn: () => unwrap(client.GET("/api/v1/health/platform")),
});

/** Takes seconds: it asks other servers. Run by a button alone. */
export const doctor = queryOptions({
  queryKey: ["health", "doctor"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/health/doctor", { signal })),
  enabled: false,
  retry: false,
});

export const alertRules = queryOptions({
  queryKey: ["alert-rules"],
  queryFn: ({ signal }) =>
    fetchAllPages((query) =>
      unwrap(client.GET("/api/v1/alert-rules", { params: { query }, signal })),
    ),
});

const MOST_ALERTS = 50;

/** The newest ones, also those that are over. */
export const alerts = queryOptions({
  queryKey: ["alerts"],
  queryFn: async () => {
    const params = { query: { limit: MOST_ALERTS } };
    return (await unwrap(client.GET("/api/v1/alerts", { params }))).results;
  },
});

export function createAlertRule(body: NewRule) {
  return unwrap(client.POST("/api/v1/alert-rules", { body }));
}

export function updateAlertRule(id: string, body: RuleChanges) {
  return unwrap(client.PATCH("/api/v1/alert-rules/{id}", { params: { path: { id } }, body }));
}

export function deleteAlertRule(id: string) {
  return unwrap(client.DELETE("/api/v1/alert-rules/{id}", { params: { path: { id } } }));
}
