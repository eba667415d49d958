import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { cursorOf } from "./pagination";
import type { DatasetBody } from "./types";

const DATASETS = "datasets";

/** Datasets of the reader's virtual clusters, the newest first, page by page. */
export const datasets = (search = "") =>
  infiniteQueryOptions({
    queryKey: [DATASETS, "list", search],
    queryFn: ({ pageParam: cursor }) => {
      const query = { cursor, limit: 100, ...(search && { search }) };
      return unwrap(client.GET("/api/v1/datasets", { params: { query } }));
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => cursorOf(page.next),
    placeholderData: keepPreviousData,
  });

/** Begins the keys of all lists of datasets. */
export const DATASET_LISTS = [DATASETS, "list"];

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
