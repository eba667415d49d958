import { queryOptions } from "@tanstack/react-query";
import { client, take } from "./client";
import { allPages } from "./pages";

export const cluster = queryOptions({
  queryKey: ["cluster"],
  queryFn: () => take(client.GET("/api/v1/cluster")),
});

export const nodes = queryOptions({
  queryKey: ["nodes"],
  queryFn: ({ signal }) =>
    allPages((query) => take(client.GET("/api/v1/nodes", { params: { query }, signal }))),
});

export const nodeFaults = (name: string) =>
  queryOptions({
    queryKey: ["node-faults", name],
    queryFn: async () => {
      const params = { path: { name } };
      return (await take(client.GET("/api/v1/nodes/{name}/faults", { params }))).results;
    },
  });

export function cordon(name: string) {
  return take(client.POST("/api/v1/nodes/{name}/cordon", { params: { path: { name } } }));
}

export function uncordon(name: string) {
  return take(client.POST("/api/v1/nodes/{name}/uncordon", { params: { path: { name } } }));
}

/** Takes the node out of use, and asks its jobs to go: they restart from the queue. */
export function drain(name: string) {
  return take(client.POST("/api/v1/nodes/{name}/drain", { params: { path: { name } } }));
}

export function undrain(name: string) {
  return take(client.POST("/api/v1/nodes/{name}/undrain", { params: { path: { name } } }));
}

export type NodeAction = "drain" | "cordon" | "remove";

/** Whom it would touch; nothing is changed. */
export const nodeForecast = (name: string, action: NodeAction) =>
  queryOptions({
    queryKey: ["node-forecast", name, action],
    queryFn: () => {
      const params = { path: { name }, query: { action } };
      return take(client.GET("/api/v1/nodes/{name}/forecast", { params }));
    },
    staleTime: 0,
    gcTime: 0,
  });

/** Rack and fabric overrule what the agent reports; null goes back to that. */
export function setLabels(name: string, labels: Record<string, string | null>) {
  return take(
    client.PATCH("/api/v1/nodes/{name}", { params: { path: { name } }, body: { labels } }),
  );
}

export function removeNode(name: string) {
  return take(client.DELETE("/api/v1/nodes/{name}", { params: { path: { name } } }));
}

/** A one-time token, and the command that uses it on the new node. */
export function createJoinToken() {
  return take(client.POST("/api/v1/nodes/join-tokens", { body: { expires_in_s: 3600 } }));
}
