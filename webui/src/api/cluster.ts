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

export function cordon(name: string) {
  return take(client.POST("/api/v1/nodes/{name}/cordon", { params: { path: { name } } }));
}

export function uncordon(name: string) {
  return take(client.POST("/api/v1/nodes/{name}/uncordon", { params: { path: { name } } }));
}

export function removeNode(name: string) {
  return take(client.DELETE("/api/v1/nodes/{name}", { params: { path: { name } } }));
}

/** A one-time token, and the command that uses it on the new node. */
export function createJoinToken() {
  return take(client.POST("/api/v1/nodes/join-tokens", { body: { expires_in_s: 3600 } }));
}
