import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { isApiError } from "./errors";
import { cursorOf, fetchAllPages } from "./pagination";
import type { components } from "./schema";
import type { MemberRole, Visibility } from "./types";

type Schemas = components["schemas"];

export type VcCells = Schemas["VcCells"];
export type VcChain = Schemas["VcChain"];
/** How many cells of a type it owns: used, lent, free, bad and missing ones. */
export type OwnedType = Schemas["OwnedType"];
/** A cell of a virtual cluster; numbers count GPUs. */
export type VirtualCell = Schemas["VirtualCell"];
export type CellState = VirtualCell["state"];

/** Without id, name and owner it is one that the reader may not see. */
export type QueuedJob = Schemas["QueuedJob"];
export type RunningJob = Schemas["Running"];
export type WaitingJob = Schemas["Waiting"];
export type VcQueue = Schemas["VcQueue"];

export type VcHistory = Schemas["VcHistory"];

/** By what factor jobs took longer than on an equal share of the GPUs, by user. */
export type VcFairness = Schemas["VcFairness"];
export type UserFairness = Schemas["UserFairness"];

export const virtualCluster = (name: string) =>
  queryOptions({
    queryKey: ["virtual-clusters", name],
    queryFn: () =>
      unwrap(client.GET("/api/v1/virtual-clusters/{name}", { params: { path: { name } } })),
  });

/** Cells that the first answer left out: those inside a cell that was too large, or those of the
 * chain after one. */
export type CellPart = { chain: string; under: string } | { chain: string; after: string };

export const vcCells = (name: string) =>
  queryOptions({
    queryKey: ["vc-cells", name],
    queryFn: ({ signal }) => readCells(name, {}, signal),
  });

export const vcCellPart = (name: string, part: CellPart) =>
  queryOptions({
    queryKey: ["vc-cells", name, part],
    queryFn: ({ signal }) => readCells(name, part, signal),
  });

function readCells(name: string, query: Partial<CellPart>, signal: AbortSignal) {
  const params = { path: { name }, query };
  return unwrap(client.GET("/api/v1/virtual-clusters/{name}/cells", { params, signal }));
}

const QUEUE_PAGE = 50;

export const vcQueue = (name: string) =>
  infiniteQueryOptions({
    queryKey: ["vc-queue", name],
    queryFn: ({ signal, pageParam: cursor }) => {
      const params = { path: { name }, query: { limit: QUEUE_PAGE, ...(cursor && { cursor }) } };
      return unwrap(client.GET("/api/v1/virtual-clusters/{name}/queue", { params, signal }));
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => cursorOf(page.next),
  });

/** The use of the last `seconds`, a point for each `step` seconds or more. */
export const vcHistory = (name: string, seconds: number, step: number) =>
  queryOptions({
    queryKey: ["vc-history", name, seconds],
    queryFn: ({ signal }) => {
      const since = new Date(Date.now() - seconds * 1000).toISOString();
      const params = { path: { name }, query: { since, step } };
      return unwrap(client.GET("/api/v1/virtual-clusters/{name}/history", { params, signal }));
    },
  });

/** Of the last 7 days: the 100 users with the largest mean. */
export const vcFairness = (name: string) =>
  queryOptions({
    queryKey: ["vc-fairness", name],
    queryFn: ({ signal }) => {
      const params = { path: { name }, query: { limit: 100 } };
      return unwrap(client.GET("/api/v1/virtual-clusters/{name}/fairness", { params, signal }));
    },
  });

export const virtualClusters = queryOptions({
  queryKey: ["virtual-clusters"],
  queryFn: () =>
    fetchAllPages((query) => unwrap(client.GET("/api/v1/virtual-clusters", { params: { query } }))),
});

export const members = (name: string) =>
  queryOptions({
    queryKey: ["virtual-clusters", name, "members"],
    queryFn: () =>
      fetchAllPages((query) =>
        unwrap(
          client.GET("/api/v1/virtual-clusters/{name}/members", {
            params: { path: { name }, query },
          }),
        ),
      ),
  });

export function createVirtualCluster(body: { name: string; description: string }) {
  return unwrap(client.POST("/api/v1/virtual-clusters", { body }));
}

export function deleteVirtualCluster(name: string) {
  return unwrap(client.DELETE("/api/v1/virtual-clusters/{name}", { params: { path: { name } } }));
}

/** Replaces all quotas of a virtual cluster at once; a model left out is owned no more. Refused with
 * `quotas_stale` when they are others than `before` now. */
export async function setQuotas(
  name: string,
  quotas: Record<string, number>,
  before: Record<string, number>,
) {
  const params = { path: { name } };
  const put = (body: { quotas: Record<string, number>; before?: Record<string, number> }) =>
    unwrap(client.PUT("/api/v1/virtual-clusters/{name}/quotas", { params, body }));
  try {
    return await put({ quotas, before });
  } catch (error) {
    // A server of the version before, beside new ones in an upgrade, cannot check it.
    if (!isApiError(error, 400) || error.fields["before"] !== "Unknown field.") throw error;
    return put({ quotas });
  }
}

export function setMember(name: string, username: string, role: MemberRole, confirm: boolean) {
  return unwrap(
    client.PUT("/api/v1/virtual-clusters/{name}/members/{username}", {
      params: { path: { name, username } },
      body: { role, confirm },
    }),
  );
}

export function removeMember(name: string, username: string, confirm: boolean) {
  return unwrap(
    client.DELETE("/api/v1/virtual-clusters/{name}/members/{username}", {
      params: { path: { name, username }, query: { confirm } },
    }),
  );
}

/** What its VC admins may change. */
export function updateVirtualCluster(
  name: string,
  body: {
    description?: string;
    job_visibility?: Visibility;
    default_image?: string;
    policy?: { name: string; parameters: Record<string, unknown> };
  },
) {
  return unwrap(
    client.PATCH("/api/v1/virtual-clusters/{name}", { params: { path: { name } }, body }),
  );
}

export const policies = queryOptions({
  queryKey: ["policies"],
  queryFn: () => unwrap(client.GET("/api/v1/policies")),
  staleTime: Infinity,
});

export function setLimit(name: string, limit: string, value: number) {
  const params = { path: { name, limit } };
  return unwrap(
    client.PUT("/api/v1/virtual-clusters/{name}/limits/{limit}", { params, body: { value } }),
  );
}

/** Back to the default. */
export function resetLimit(name: string, limit: string) {
  const params = { path: { name, limit } };
  return unwrap(client.DELETE("/api/v1/virtual-clusters/{name}/limits/{limit}", { params }));
}

export const limits = (name: string) =>
  queryOptions({
    queryKey: ["virtual-clusters", name, "limits"],
    queryFn: () =>
      unwrap(client.GET("/api/v1/virtual-clusters/{name}/limits", { params: { path: { name } } })),
  });
