import { ANOTHER_VC } from "@/format/others";
import type { Node } from "@/api/types";

export type ColourBy = "use" | "vc";
export type Show = "all" | "free" | "problems" | "cordoned";

export interface NodeFilter {
  text: string;
  model: string | null;
  show: Show;
}

export const NO_FILTER: NodeFilter = { text: "", model: null, show: "all" };

export function matching(nodes: Node[], { text, model, show }: NodeFilter): Node[] {
  const needle = text.trim().toLowerCase();
  return nodes.filter(
    (node) =>
      node.name.toLowerCase().includes(needle) &&
      (model === null || node.gpus.some((gpu) => gpu.model === model)) &&
      SHOWN[show](node),
  );
}

const SHOWN: Record<Show, (node: Node) => boolean> = {
  all: () => true,
  free: (node) => node.state === "ONLINE" && !node.cordoned && node.gpus.some(isFree),
  problems: hasProblem,
  cordoned: (node) => node.cordoned,
};

/** Something that an administrator should look at. */
export function hasProblem(node: Node): boolean {
  const away = node.state === "UNREACHABLE" || node.state === "LOST";
  return away || node.gpus.some((gpu) => gpu.health !== "HEALTHY");
}

export function isFree(gpu: Node["gpus"][number]): boolean {
  return gpu.health === "HEALTHY" && gpu.used_by === null;
}

/** Names in use, in their order: a virtual cluster keeps its colour while others come and go. */
export function virtualClustersOf(nodes: Node[]): string[] {
  const names = new Set<string>();
  for (const node of nodes) {
    for (const gpu of node.gpus) if (gpu.used_by) names.add(vcOf(gpu.used_by));
  }
  return [...names].sort();
}

/** Those that the reader may not know by name are one. */
export function vcOf({ virtual_cluster }: NonNullable<Node["gpus"][number]["used_by"]>): string {
  return virtual_cluster ?? ANOTHER_VC;
}

export function vcColour(name: string, names: string[]): string {
  const hue = Math.round((75 + Math.max(0, names.indexOf(name)) * 137.508) % 360);
  return `oklch(var(--vc-l) var(--vc-c) ${hue})`;
}
