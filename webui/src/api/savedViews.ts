import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { components } from "./schema";

export type SavedView = components["schemas"]["SavedView"];
export type SavedFilters = SavedView["filters"];

/** Filters of the list of jobs that the user keeps under names. */
export const savedViews = queryOptions({
  queryKey: ["job-views"],
  queryFn: async () => (await unwrap(client.GET("/api/v1/me/job-views"))).views,
});

/** Replaces what the user has under the same name. */
export function saveView(name: string, filters: SavedFilters) {
  return unwrap(client.POST("/api/v1/me/job-views", { body: { name, filters } }));
}

export function deleteView(id: string) {
  return unwrap(client.DELETE("/api/v1/me/job-views/{id}", { params: { path: { id } } }));
}
