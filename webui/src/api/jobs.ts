import { queryOptions } from "@tanstack/react-query";
import { allPages } from "./pages";
import { client, take } from "./client";

export interface JobFilter {
  state?: string;
  virtual_cluster?: string;
  owner?: string;
  search?: string;
  ordering?: string;
  cursor?: string;
}

const PAGE = 50;

export const jobs = (filter: JobFilter) =>
  queryOptions({
    queryKey: ["jobs", filter],
    queryFn: ({ signal }) => {
      const query = { limit: PAGE, ...filter };
      return take(client.GET("/api/v1/jobs", { params: { query }, signal }));
    },
    placeholderData: (previous) => previous,
  });

export const job = (id: string) =>
  queryOptions({
    queryKey: ["job", id],
    queryFn: () => take(client.GET("/api/v1/jobs/{id}", { params: { path: { id } } })),
  });

export const tasks = (id: string) =>
  queryOptions({
    queryKey: ["job", id, "tasks"],
    queryFn: ({ signal }) =>
      allPages((page) =>
        take(
          client.GET("/api/v1/jobs/{id}/tasks", {
            params: { path: { id }, query: page },
            signal,
          }),
        ),
      ),
  });

export const events = (id: string) =>
  queryOptions({
    queryKey: ["job", id, "events"],
    queryFn: ({ signal }) =>
      allPages((page) =>
        take(
          client.GET("/api/v1/jobs/{id}/events", { params: { path: { id }, query: page }, signal }),
        ),
      ),
  });

export const metrics = (id: string) =>
  queryOptions({
    queryKey: ["metrics", id],
    queryFn: () => take(client.GET("/api/v1/jobs/{id}/metrics", { params: { path: { id } } })),
  });

export const jobSchema = queryOptions({
  queryKey: ["job-schema"],
  queryFn: () => take(client.GET("/api/v1/jobs/schema")),
  staleTime: Infinity,
});

const yaml = { headers: { "Content-Type": "application/yaml" }, bodySerializer: String };

/** What the server would say to this job file; it changes nothing. */
export function check(text: string) {
  return take(client.POST("/api/v1/jobs/check", { ...yaml, body: text }));
}

/** `token` makes a repeated submit the same job. */
export function submit(text: string, token: string) {
  const headers = { ...yaml.headers, "Idempotency-Key": token };
  return take(client.POST("/api/v1/jobs", { ...yaml, headers, body: text }));
}

export function stop(id: string) {
  return take(client.POST("/api/v1/jobs/{id}/stop", { params: { path: { id } } }));
}
