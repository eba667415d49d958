import type { Cells, VcGpus, VirtualCluster } from "@/api/types";

type Owned = Pick<VirtualCluster, "name" | "quotas" | "cells" | "pins">;

/** What of the owned GPUs cannot be used now and why: ", 2 bad, 8 on cordoned nodes". */
export function unavailableGpus(gpus: Pick<VcGpus, "bad" | "cordoned" | "offline">): string {
  const parts = [
    gpus.bad ? `${gpus.bad} bad` : "",
    gpus.cordoned ? `${gpus.cordoned} on cordoned nodes` : "",
    gpus.offline ? `${gpus.offline} offline` : "",
  ].filter(Boolean);
  return parts.length > 0 ? `, ${parts.join(", ")}` : "";
}

/** GPUs owned by model, whether given by number, as cells, or as pinned cells. */
export function ownedGpusByModel(vc: Owned, cells: Cells | undefined): Record<string, number> {
  const owned = { ...vc.quotas };
  const add = (chain: string | undefined, type: string, number: number) => {
    for (const each of cells?.chains ?? []) {
      const level = each.levels.find((level) => level.type === type);
      if (!level || (chain && each.chain !== chain)) continue;
      owned[each.gpu_model] = (owned[each.gpu_model] ?? 0) + number * level.gpus;
      return;
    }
  };
  for (const { chain, cell_type, number } of vc.cells) add(chain, cell_type, number);
  for (const pin of cells?.pins ?? []) {
    if (pin.virtual_cluster === vc.name) add(undefined, pin.cell_type, 1);
  }
  return owned;
}
