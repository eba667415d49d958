import type { CellLevel, Chain } from "@/api/types";
import type { VcChain, VirtualCell } from "@/api/virtualClusters";

const level = (part: Partial<CellLevel>): CellLevel => ({
  type: "gpu",
  level: 1,
  gpus: 1,
  kind: "gpu",
  words: "A100",
  is_node: false,
  ...part,
});

/** Racks of nodes of 8 GPUs in two halves. */
export const A100: Chain = {
  chain: "a100",
  gpu_model: "A100",
  nodes: 4,
  totals: [],
  levels: [
    level({}),
    level({ type: "half", level: 2, gpus: 4, kind: "socket", words: "half node of 4 A100" }),
    level({
      type: "node",
      level: 3,
      gpus: 8,
      kind: "node",
      words: "node of 8 A100",
      is_node: true,
    }),
    level({ type: "rack", level: 4, gpus: 16, kind: "rack", words: "rack of 2 nodes of 8 A100" }),
  ],
};

const PARTS: Record<string, [string, number]> = {
  rack: ["node", 2],
  node: ["half", 2],
  half: ["gpu", 4],
};
const GPUS: Record<string, number> = { rack: 16, node: 8, half: 4, gpu: 1 };

/** A free cell of a type, down to its GPUs; name what matters to the test. */
export function aCell(type: string, address: string, part: Partial<VirtualCell> = {}): VirtualCell {
  const [below, number] = PARTS[type] ?? ["", 0];
  const children = Array.from({ length: number }, (_, n) => aCell(below, `${address}/${n}`));
  return {
    address,
    type,
    gpus: GPUS[type] ?? 1,
    pin: null,
    state: "free",
    used: 0,
    bad: 0,
    lent: 0,
    physical: null,
    job: null,
    children: type === "gpu" ? null : children,
    ...part,
  };
}

export function aChain(cells: VirtualCell[], part: Partial<VcChain> = {}): VcChain {
  return { chain: "a100", gpu_model: "A100", types: [], cells, more: 0, ...part };
}
