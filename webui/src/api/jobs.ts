import { queryOptions } from "@tanstack/react-query";
import { isApiError } from "./errors";
import { allPages } from "./pages";
import { client, take } from "./client";
import type { JobUse, Visibility } from "./types";

export interface JobFilter {
  state?: string;
  virtual_cluster?: string;
  owner?: string;
  search?: string;
  tag?: string;
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

/** Placements of the whole gang, the newest first. */
export const jobAttempts = (id: string) =>
  queryOptions({
    queryKey: ["job", id, "attempts"],
    queryFn: ({ signal }) =>
      allPages((page) =>
        take(
          client.GET("/api/v1/jobs/{id}/attempts", {
            params: { path: { id }, query: page },
            signal,
          }),
        ),
      ),
  });

/** All attempts of one task, newest first. */
export const taskAttempts = (id: string, rank: number) =>
  queryOptions({
    queryKey: ["job", id, "task-attempts", rank],
    queryFn: ({ signal }) =>
      allPages((query) => {
        const params = { path: { id, rank }, query };
        return take(client.GET("/api/v1/jobs/{id}/tasks/{rank}/attempts", { params, signal }));
      }),
  });

/** null: not counted yet. */
export const jobUse = (id: string) =>
  queryOptions({
    queryKey: ["job", id, "use"],
    queryFn: async (): Promise<JobUse | null> => {
      try {
        return await take(client.GET("/api/v1/jobs/{id}/use", { params: { path: { id } } }));
      } catch (error) {
        if (isApiError(error, 404)) return null;
        throw error;
      }
    },
    // It is counted soon after the end, and then stays as it is.
    refetchInterval: ({ state }) => (state.data ? false : 5000),
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

/** The next attempt at once, without the pause before it. */
export function retryNow(id: string) {
  return take(client.POST("/api/v1/jobs/{id}/retry", { params: { path: { id } } }));
}

export function stop(id: string) {
  return take(client.POST("/api/v1/jobs/{id}/stop", { params: { path: { id } } }));
}

/** The same job once more, with its secrets and working files, under the next free name. */
export function clone(id: string) {
  return take(client.POST("/api/v1/jobs/{id}/clone", { params: { path: { id } }, body: {} }));
}

export function setTags(id: string, tags: string[]) {
  return take(client.PUT("/api/v1/jobs/{id}/tags", { params: { path: { id } }, body: { tags } }));
}

/** Who else reads the job; null: as its virtual cluster says. */
export function setVisibility(id: string, visibility: Visibility | null) {
  const params = { path: { id } };
  return take(client.PUT("/api/v1/jobs/{id}/visibility", { params, body: { visibility } }));
}

export function setPriority(id: string, priority: number) {
  const params = { path: { id } };
  return take(client.PUT("/api/v1/jobs/{id}/priority", { params, body: { priority } }));
}

export type ForeignFormat = "auto" | "slurm" | "kubeflow";

/** A job file made of a Slurm script or a Kubeflow manifest; it changes nothing. */
export function convert(text: string, format: ForeignFormat) {
  const plain = { headers: { "Content-Type": "text/plain" }, bodySerializer: String };
  const params = { query: { format } };
  return take(client.POST("/api/v1/jobs/convert", { ...plain, params, body: text }));
}
