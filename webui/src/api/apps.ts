import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { fetchAllPages } from "./pagination";
import type { App, NewAppBody } from "./types";

export const apps = queryOptions({
  queryKey: ["apps"],
  queryFn: () =>
    fetchAllPages((query) => unwrap(client.GET("/api/v1/apps", { params: { query } }))),
});

export const app = (id: string) =>
  queryOptions({
    queryKey: ["app", id],
    queryFn: () => unwrap(client.GET("/api/v1/apps/{id}", { params: { path: { id } } })),
  });

export const jobApps = (id: string) =>
  queryOptions({
    queryKey: ["job", id, "apps"],
    queryFn: () =>
      fetchAllPages((query) =>
        unwrap(client.GET("/api/v1/jobs/{id}/apps", { params: { path: { id }, query } })),
      ),
  });

export function createApp(body: NewAppBody): Promise<App> {
  return unwrap(client.POST("/api/v1/apps", { body }));
}

export function attachTensorboard(id: string, log_dir: string): Promise<App> {
  const params = { path: { id } };
  return unwrap(client.POST("/api/v1/jobs/{id}/apps", { params, body: { log_dir } }));
}

export function shareApp(id: string, shared: boolean): Promise<App> {
  return unwrap(client.PATCH("/api/v1/apps/{id}", { params: { path: { id } }, body: { shared } }));
}

/** The address at which this browser gets its login at the app's own origin, once. */
export async function entrance(id: string, state: string): Promise<string> {
  const params = { path: { id } };
  const answer = await unwrap(client.POST("/api/v1/apps/{id}/open", { params, body: { state } }));
  return answer.url;
}
