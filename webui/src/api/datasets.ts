import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { DatasetBody } from "./types";

const DATASETS = "datasets";

/** Datasets of the reader's virtual clusters, the newest first, page by page. */
export const datasets = infiniteQueryOptions({
  queryKey: [DATASETS],
  queryFn: ({ pageParam: cursor }) =>
    unwrap(client.GET("/api/v1/datasets", { params: { query: { cursor, limit: 100 } } })),
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (page) =>
    page.next ? (new URL(page.next).searchParams.get("cursor") ?? undefined) : undefined,
});

export const dataset = (id: string) =>
  queryOptions({
    queryKey: [DATASETS, id],
    queryFn: () => unwrap(client.GET("/api/v1/datasets/{id}", { params: { path: { id } } })),
  });

export function createDataset(body: DatasetBody) {
  return unwrap(client.POST("/api/v1/datasets", { body }));
}

export function describeDataset(id: string, description: string) {
  const params = { path: { id } };
  return unwrap(client.PATCH("/api/v1/datasets/{id}", { params, body: { description } }));
}

export function deleteDataset(id: string) {
  return unwrap(client.DELETE("/api/v1/datasets/{id}", { params: { path: { id } } }));
}
