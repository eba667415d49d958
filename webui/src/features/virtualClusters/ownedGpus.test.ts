import { expect, test } from "vitest";
import type { Cells } from "@/api/types";
import { ownedGpusByModel, unavailableGpus } from "./ownedGpus";

const level = (type: string, gpus: number) => ({
  type,
  gpus,
  level: 1,
  kind: "node",
  words: type,
  is_node: true,
});
const cells: Cells = {
  revision: 1,
  source: "inventory",
  chains: [
    {
      chain: "a",
      gpu_model: "A100",
      nodes: 2,
      levels: [level("node", 8), level("half", 4)],
      totals: [],
    },
    { chain: "v", gpu_model: "V100", nodes: 1, levels: [level("small", 2)], totals: [] },
  ],
  pins: [
    { name: "p", cell_type: "half", node: "n", device: "", virtual_cluster: "vision" },
    { name: "q", cell_type: "node", node: "m", device: "", virtual_cluster: "other" },
  ],
  gpus: [],
};

test("numbers, cells and its own pinned cells are summed up by model", () => {
  const claims = [
    { chain: "a", cell_type: "node", number: 2 },
    { chain: "v", cell_type: "small", number: 3 },
  ];
  const vc = { name: "vision", quotas: { A100: 1 }, cells: claims, pins: ["p"] };
  expect(ownedGpusByModel(vc, cells)).toEqual({ A100: 1 + 16 + 4, V100: 6 });
});

test("cells that the cluster has not are nothing", () => {
  const claims = [{ chain: "gone", cell_type: "node", number: 2 }];
  expect(ownedGpusByModel({ name: "x", quotas: {}, cells: claims, pins: [] }, cells)).toEqual({});
});

test("finding U5: what cannot be used is shown by its cause", () => {
  expect(unavailableGpus({ bad: 2, cordoned: 0, offline: 0 })).toBe(", 2 bad");
  expect(unavailableGpus({ bad: 0, cordoned: 8, offline: 4 })).toBe(
    ", 8 on cordoned nodes, 4 offline",
  );
  expect(unavailableGpus({ bad: 0, cordoned: 0, offline: 0 })).toBe("");
});
