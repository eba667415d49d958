import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { isApiError } from "./errors";
import { fetchAllPages } from "./pagination";
import type { components } from "./schema";
import type { JobUse, Visibility } from "./types";

export interface JobFilter {
  state?: string;
  virtual_cluster?: string;
  owner?: string;
  search?: string;
  tag?: string;
  shared?: boolean;
  cause?: string;
  since?: string;
  until?: string;
  ordering?: string;
  cursor?: string;
  limit?: number;
}

const PAGE = 50;

export const jobs = (filter: JobFilter) =>
  queryOptions({
    queryKey: ["jobs", filter],
    queryFn: ({ signal }) => {
      const query = { limit: PAGE, ...filter };
      return unwrap(client.GET("/api/v1/jobs", { params: { query }, signal }));
    },
    placeholderData: (previous) => previous,
  });

/** How many jobs the list has in all; beyond 10,000 it is a lower bound. */
export const jobCount = (filter: JobFilter) => {
  const query = { ...filter, ordering: undefined, cursor: undefined };
  return queryOptions({
    queryKey: ["job-count", query],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/count", { params: { query }, signal })),
    placeholderData: (previous) => previous,
  });
};

export const job = (id: string) =>
  queryOptions({
    queryKey: ["job", id],
    queryFn: () => unwrap(client.GET("/api/v1/jobs/{id}", { params: { path: { id } } })),
  });

export const tasks = (id: string) =>
  queryOptions({
    queryKey: ["job", id, "tasks"],
    queryFn: ({ signal }) =>
      fetchAllPages((page) =>
        unwrap(
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
      fetchAllPages((page) =>
        unwrap(
          client.GET("/api/v1/jobs/{id}/events", { params: { path: { id }, query: page }, signal }),
        ),
      ),
  });

/** Placements of the whole gang, the newest first. */
export const jobAttempts = (id: string) =>
  queryOptions({
    queryKey: ["job", id, "attempts"],
    queryFn: ({ signal }) =>
      fetchAllPages((page) =>
        unwrap(
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
      fetchAllPages((query) => {
        const params = { path: { id, rank }, query };
        return unwrap(client.GET("/api/v1/jobs/{id}/tasks/{rank}/attempts", { params, signal }));
      }),
  });

/** null: not counted yet. */
export const jobUse = (id: string) =>
  queryOptions({
    queryKey: ["job", id, "use"],
    queryFn: async (): Promise<JobUse | null> => {
      try {
        return await unwrap(client.GET("/api/v1/jobs/{id}/use", { params: { path: { id } } }));
      } catch (error) {
        if (isApiError(error, 404)) return null;
        throw error;
      }
    },
    // It is counted half a minute after the end, and then stays as it is. Where it is not, as of a
    // job that is older than the counting, the page asks less and less often.
    refetchInterval: ({ state }) =>
      state.data ? false : Math.min(5000 * 2 ** Math.max(state.dataUpdateCount - 1, 0), 300_000),
  });

/** From `since` to `until`, in seconds since the epoch; without them all that is kept. */
export const metrics = (id: string, span: { since?: string; until?: string } = {}) =>
  queryOptions({
    queryKey: ["metrics", id, span],
    queryFn: () =>
      unwrap(client.GET("/api/v1/jobs/{id}/metrics", { params: { path: { id }, query: span } })),
    placeholderData: (previous) => previous,
  });

/** What the list of jobs can be filtered by, as the cause of a failure. */
export const causes = queryOptions({
  queryKey: ["job-causes"],
  queryFn: () => unwrap(client.GET("/api/v1/jobs/causes")),
  staleTime: Infinity,
});

export const jobSchema = queryOptions({
  queryKey: ["job-schema"],
  queryFn: () => unwrap(client.GET("/api/v1/jobs/schema")),
  staleTime: Infinity,
});

const yaml = { headers: { "Content-Type": "application/yaml" }, bodySerializer: String };

/** What the server would say to this job file; it changes nothing. */
export function check(text: string) {
  return unwrap(client.POST("/api/v1/jobs/check", { ...yaml, body: text }));
}

/** Submit a job file; one that is repeated with the same `token` returns the same job.
 *  `ignoreStorage` accepts a job whose storages are not mounted. */
export function submit(text: string, token: string, ignoreStorage = false) {
  const headers = { ...yaml.headers, "Idempotency-Key": token };
  const query = ignoreStorage ? { ignore_storage: true } : {};
  return unwrap(client.POST("/api/v1/jobs", { ...yaml, headers, params: { query }, body: text }));
}

/** The next attempt at once, without the pause before it. */
export function retryNow(id: string) {
  return unwrap(client.POST("/api/v1/jobs/{id}/retry", { params: { path: { id } } }));
}

/** No more attempts after a failure; a job in its pause ends at once. */
export function endRetries(id: string) {
  return unwrap(client.POST("/api/v1/jobs/{id}/end-retries", { params: { path: { id } } }));
}

/** Starts a waiting job on GPUs that no job uses, without its guarantee. */
export function runOpportunistically(id: string) {
  return unwrap(client.POST("/api/v1/jobs/{id}/opportunistic", { params: { path: { id } } }));
}

/** Ends a running job and starts it again on other nodes. */
export function move(id: string, node: string) {
  const params = { path: { id } };
  return unwrap(client.POST("/api/v1/jobs/{id}/move", { params, body: { node } }));
}

/** The same job once more, with more memory or on other nodes. */
export function runAgain(
  id: string,
  changes: { memory_mb?: number; elsewhere?: boolean },
  token: string,
) {
  const params = { path: { id }, header: { "Idempotency-Key": token } };
  const body = { elsewhere: false, ...changes };
  return unwrap(client.POST("/api/v1/jobs/{id}/run-again", { params, body }));
}

export function stop(id: string) {
  return unwrap(client.POST("/api/v1/jobs/{id}/stop", { params: { path: { id } } }));
}

export type BulkResult = components["schemas"]["BulkResult"];

/** Stops several jobs; each is stopped or refused by itself. */
export async function stopJobs(jobs: string[]): Promise<BulkResult[]> {
  return (await unwrap(client.POST("/api/v1/jobs/bulk/stop", { body: { jobs } }))).results;
}

/** Adds tags to several jobs and removes others. */
export async function tagJobs(
  jobs: string[],
  add: string[],
  remove: string[],
): Promise<BulkResult[]> {
  const body = { jobs, add, remove };
  return (await unwrap(client.POST("/api/v1/jobs/bulk/tags", { body }))).results;
}

/** The same job once more, with its secrets and working files, under the next free name. */
export function clone(id: string, token: string) {
  const params = { path: { id }, header: { "Idempotency-Key": token } };
  return unwrap(client.POST("/api/v1/jobs/{id}/clone", { params, body: {} }));
}

export function setTags(id: string, tags: string[]) {
  return unwrap(client.PUT("/api/v1/jobs/{id}/tags", { params: { path: { id } }, body: { tags } }));
}

/** Who else reads the job; null: as its virtual cluster says. */
export const jobShares = (id: string) =>
  queryOptions({
    queryKey: ["jobs", id, "shares"],
    queryFn: () => unwrap(client.GET("/api/v1/jobs/{id}/shares", { params: { path: { id } } })),
  });

export type ShareKind = components["schemas"]["JobShare"]["kind"];

export function shareJob(id: string, kind: ShareKind, name: string) {
  return kind === "user"
    ? unwrap(
        client.PUT("/api/v1/jobs/{id}/shares/users/{username}", {
          params: { path: { id, username: name } },
        }),
      )
    : unwrap(
        client.PUT("/api/v1/jobs/{id}/shares/groups/{group}", {
          params: { path: { id, group: name } },
        }),
      );
}

export function unshareJob(id: string, kind: ShareKind, name: string) {
  return kind === "user"
    ? unwrap(
        client.DELETE("/api/v1/jobs/{id}/shares/users/{username}", {
          params: { path: { id, username: name } },
        }),
      )
    : unwrap(
        client.DELETE("/api/v1/jobs/{id}/shares/groups/{group}", {
          params: { path: { id, group: name } },
        }),
      );
}

export function setVisibility(id: string, visibility: Visibility | null) {
  const params = { path: { id } };
  return unwrap(client.PUT("/api/v1/jobs/{id}/visibility", { params, body: { visibility } }));
}

export function setPriority(id: string, priority: number) {
  const params = { path: { id } };
  return unwrap(client.PUT("/api/v1/jobs/{id}/priority", { params, body: { priority } }));
}

export function setIdleExemption(id: string, exempt: boolean) {
  const params = { path: { id } };
  return unwrap(client.PUT("/api/v1/jobs/{id}/idle-exemption", { params, body: { exempt } }));
}

export type ForeignFormat = "auto" | "slurm" | "kubeflow";

/** A job file made of a Slurm script or a Kubeflow manifest; it changes nothing. */
export function convert(text: string, format: ForeignFormat) {
  const plain = { headers: { "Content-Type": "text/plain" }, bodySerializer: String };
  const params = { query: { format } };
  return unwrap(client.POST("/api/v1/jobs/convert", { ...plain, params, body: text }));
}

/** Stores a gzipped tar archive; the same one twice is one. */
export function uploadArchive(archive: Blob) {
  return unwrap(
    client.POST("/api/v1/files", {
      headers: { "Content-Type": "application/gzip" },
      body: archive as unknown as string,
      bodySerializer: (body) => body as unknown as BodyInit,
    }),
  );
}
