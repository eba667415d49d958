import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { client, take } from "./client";
import { cursorOf } from "./pages";
import type { components } from "./schema";

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

export const virtualCluster = (name: string) =>
  queryOptions({
    queryKey: ["virtual-clusters", name],
    queryFn: () =>
      take(client.GET("/api/v1/virtual-clusters/{name}", { params: { path: { name } } })),
  });

/** Cells that are not told with the others: those in one that was too large, or those of the chain
 * after one. */
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
  return take(client.GET("/api/v1/virtual-clusters/{name}/cells", { params, signal }));
}

const QUEUE_PAGE = 50;

export const vcQueue = (name: string) =>
  infiniteQueryOptions({
    queryKey: ["vc-queue", name],
    queryFn: ({ signal, pageParam: cursor }) => {
      const params = { path: { name }, query: { limit: QUEUE_PAGE, ...(cursor && { cursor }) } };
      return take(client.GET("/api/v1/virtual-clusters/{name}/queue", { params, signal }));
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
      return take(client.GET("/api/v1/virtual-clusters/{name}/history", { params, signal }));
    },
  });
