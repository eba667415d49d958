import { queryOptions } from "@tanstack/react-query";
import { client, take } from "./client";
import { allPages } from "./pages";
import type { Cluster, JoinToken, Node, Page } from "./types";

export const cluster = queryOptions({
  queryKey: ["cluster"],
  queryFn: () => take<Cluster>(client.GET("/api/v1/cluster")),
});

export const nodes = queryOptions({
  queryKey: ["nodes"],
  queryFn: ({ signal }) =>
    allPages((query) =>
      take<Page<Node>>(client.GET("/api/v1/nodes", { params: { query }, signal })),
    ),
});

export function cordon(name: string) {
  return take<Node>(client.POST("/api/v1/nodes/{name}/cordon", { params: { path: { name } } }));
}

export function uncordon(name: string) {
  return take<Node>(client.POST("/api/v1/nodes/{name}/uncordon", { params: { path: { name } } }));
}

export function removeNode(name: string) {
  return take(client.DELETE("/api/v1/nodes/{name}", { params: { path: { name } } }));
}

/** A one-time token, and the command that uses it on the new node. */
export function createJoinToken() {
  return take<JoinToken>(client.POST("/api/v1/nodes/join-tokens", { body: {} }));
}
