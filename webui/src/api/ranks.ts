import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { components } from "./schema";

export type JobAttemptDetail = components["schemas"]["JobAttemptDetail"];
export type RankLog = components["schemas"]["RankLog"];
export type RankUse = components["schemas"]["RankUse"];

/** So many tasks are in one answer. */
export const LOG_RANKS = 16;
export const USE_RANKS = 256;

/** One placement of the whole gang with its nodes, its ends and what it used. */
export const jobAttempt = (id: string, index: number) =>
  queryOptions({
    queryKey: ["job", id, "attempt", index],
    queryFn: () =>
      unwrap(client.GET("/api/v1/jobs/{id}/attempts/{index}", { params: { path: { id, index } } })),
  });

/** The last lines of each of 16 tasks. */
export const logTails = (id: string, first: number, attempt: number | undefined) =>
  queryOptions({
    queryKey: ["job-log-tails", id, first, attempt],
    queryFn: ({ signal }) => {
      const query = { first, ...(attempt ? { attempt } : {}) };
      return unwrap(
        client.GET("/api/v1/jobs/{id}/log-tails", { params: { path: { id }, query }, signal }),
      );
    },
    placeholderData: keepPreviousData,
  });

/** What each of 256 tasks used of its GPUs, CPUs and memory. */
export const rankUses = (id: string, first: number) =>
  queryOptions({
    queryKey: ["job-ranks", id, first],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/jobs/{id}/ranks", {
          params: { path: { id }, query: { first } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
