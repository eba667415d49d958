import type { GridGpu, GridNode } from "@/api/grid";
import { HIDDEN_VC_LABEL } from "@/format/names";

export type ColourBy = "use" | "vc";
export type Show = "all" | "free" | "problems" | "cordoned";

export interface NodeFilter {
  text: string;
  model: string | null;
  show: Show;
}

export const NO_FILTER: NodeFilter = { text: "", model: null, show: "all" };

export function matching(nodes: GridNode[], { text, model, show }: NodeFilter): GridNode[] {
  const needle = text.trim().toLowerCase();
  return nodes.filter(
    (node) =>
      node.name.toLowerCase().includes(needle) &&
      (model === null || node.gpus.some((gpu) => gpu.model === model)) &&
      SHOWN[show](node),
  );
}

const SHOWN: Record<Show, (node: GridNode) => boolean> = {
  all: () => true,
  free: (node) => node.state === "ONLINE" && !node.cordoned && node.gpus.some(isFree),
  problems: hasProblem,
  cordoned: (node) => node.cordoned,
};

/** Something that an administrator should look at. */
export function hasProblem(node: GridNode): boolean {
  const away = node.state === "UNREACHABLE" || node.state === "LOST";
  return away || node.gpus.some((gpu) => gpu.bad);
}

export function isFree(gpu: GridGpu): boolean {
  return !gpu.bad && !gpu.used;
}

/** Names in use, in their order: a virtual cluster keeps its colour while others come and go. */
export function virtualClustersOf(nodes: GridNode[]): string[] {
  const names = new Set<string>();
  for (const node of nodes) {
    for (const gpu of node.gpus) if (gpu.used) names.add(vcOf(gpu));
  }
  return [...names].sort();
}

/** Those that the reader may not know by name are one. */
export function vcOf({ virtualCluster }: GridGpu): string {
  return virtualCluster ?? HIDDEN_VC_LABEL;
}

export function vcColour(name: string, names: string[]): string {
  const hue = Math.round((75 + Math.max(0, names.indexOf(name)) * 137.508) % 360);
  return `oklch(var(--vc-l) var(--vc-c) ${hue})`;
}
