import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { fetchAllPages } from "./pagination";

export const cluster = queryOptions({
  queryKey: ["cluster"],
  queryFn: () => unwrap(client.GET("/api/v1/cluster")),
});

/** The number of nodes by version of each program. */
export const versions = queryOptions({
  queryKey: ["cluster", "versions"],
  queryFn: () => unwrap(client.GET("/api/v1/cluster", { params: { query: { versions: true } } })),
});

const ANNOUNCEMENTS_INTERVAL_MS = 300_000;

export const announcements = queryOptions({
  queryKey: ["announcements"],
  queryFn: async () => (await unwrap(client.GET("/api/v1/announcements"))).results,
  refetchInterval: ANNOUNCEMENTS_INTERVAL_MS,
});

export function announce(body: {
  message: string;
  severity: "info" | "warning";
  expires_at?: string;
}) {
  return unwrap(client.POST("/api/v1/announcements", { body }));
}

export function deleteAnnouncement(id: string) {
  return unwrap(client.DELETE("/api/v1/announcements/{id}", { params: { path: { id } } }));
}

/** Hides it from this user alone. */
export function dismissAnnouncement(id: string) {
  return unwrap(client.PUT("/api/v1/announcements/{id}/dismissal", { params: { path: { id } } }));
}

export const nodes = queryOptions({
  queryKey: ["nodes", "all"],
  queryFn: ({ signal }) =>
    fetchAllPages((query) => unwrap(client.GET("/api/v1/nodes", { params: { query }, signal }))),
});

export const node = (name: string) =>
  queryOptions({
    queryKey: ["nodes", "one", name],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/nodes/{name}", { params: { path: { name } }, signal })),
  });

/** All that is known of nodes: a prefix of the keys of every query about them. */
export const NODES = ["nodes"];

export const nodeFaults = (name: string) =>
  queryOptions({
    queryKey: ["node-faults", name],
    queryFn: async () => {
      const params = { path: { name } };
      return (await unwrap(client.GET("/api/v1/nodes/{name}/faults", { params }))).results;
    },
  });

/** `reason` is shown with the node; "" keeps the one that it has. */
export function cordon(name: string, reason: string) {
  const params = { path: { name } };
  return unwrap(client.POST("/api/v1/nodes/{name}/cordon", { params, body: { reason } }));
}

export function uncordon(name: string) {
  return unwrap(client.POST("/api/v1/nodes/{name}/uncordon", { params: { path: { name } } }));
}

/** Takes the node out of use, and asks its jobs to go: they restart from the queue. */
export function drain(name: string, reason: string) {
  const params = { path: { name } };
  return unwrap(client.POST("/api/v1/nodes/{name}/drain", { params, body: { reason } }));
}

/** Counts its tasks as lost without waiting for the end of its lease. */
export function declareLost(name: string) {
  return unwrap(client.POST("/api/v1/nodes/{name}/declare-lost", { params: { path: { name } } }));
}

export const health = queryOptions({
  queryKey: ["health"],
  queryFn: () => unwrap(client.GET("/api/v1/health")),
});

export const predictions = queryOptions({
  queryKey: ["predictions"],
  queryFn: () => unwrap(client.GET("/api/v1/predictions")),
});

export function undrain(name: string) {
  return unwrap(client.POST("/api/v1/nodes/{name}/undrain", { params: { path: { name } } }));
}

/** The key of what is planned for nodes and what they found of themselves. */
export const MAINTENANCE = "maintenance";

export const maintenanceOf = (name: string) =>
  queryOptions({
    queryKey: [MAINTENANCE, "windows", name],
    queryFn: async () => {
      const params = { query: { node: name } };
      return (await unwrap(client.GET("/api/v1/maintenance-windows", { params }))).results;
    },
  });

export const nodeChecks = (name: string) =>
  queryOptions({
    queryKey: [MAINTENANCE, "checks", name],
    queryFn: async () => {
      const params = { path: { name } };
      return (await unwrap(client.GET("/api/v1/nodes/{name}/checks", { params }))).results;
    },
  });

export function planMaintenance(name: string, start: Date, end: Date, reason: string) {
  const when = { starts_at: start.toISOString(), ends_at: end.toISOString() };
  const body = { nodes: [name], ...when, reason };
  return unwrap(client.POST("/api/v1/maintenance-windows", { body }));
}

export function cancelMaintenance(id: string) {
  return unwrap(client.DELETE("/api/v1/maintenance-windows/{id}", { params: { path: { id } } }));
}

/** The node is cordoned until it has passed. */
export function checkNode(name: string) {
  const params = { path: { name } };
  return unwrap(client.POST("/api/v1/nodes/{name}/checks", { params, body: {} }));
}

export type NodeAction = "drain" | "cordon" | "remove";

/** Whom it would touch; nothing is changed. */
export const nodeForecast = (name: string, action: NodeAction) =>
  queryOptions({
    queryKey: ["node-forecast", name, action],
    queryFn: () => {
      const params = { path: { name }, query: { action } };
      return unwrap(client.GET("/api/v1/nodes/{name}/forecast", { params }));
    },
    staleTime: 0,
    gcTime: 0,
  });

/** Rack and fabric overrule what the agent reports; null goes back to that. */
export function setLabels(name: string, labels: Record<string, string | null>) {
  return unwrap(
    client.PATCH("/api/v1/nodes/{name}", { params: { path: { name } }, body: { labels } }),
  );
}

export function removeNode(name: string) {
  return unwrap(client.DELETE("/api/v1/nodes/{name}", { params: { path: { name } } }));
}

/** A one-time token, and the command that uses it on the new node. */
export function createJoinToken() {
  return unwrap(client.POST("/api/v1/nodes/join-tokens", { body: { expires_in_s: 3600 } }));
}
