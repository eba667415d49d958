import type { VcChain } from "@/api/vc";
import { toComb, together, type Comb, type Levels } from "./model";

/** The same cells on the nodes that they are bound to, and what has no place yet. */
export function overNodes(chain: VcChain, levels: Levels): { nodes: Comb[]; unplaced: Comb[] } {
  const placed: Comb[] = [];
  const untold: Comb[] = [];
  const unplaced: Comb[] = [];
  const visit = (comb: Comb) => {
    if (comb.node) placed.push(comb);
    else if (comb.place && comb.children) comb.children.forEach(visit);
    else (comb.place ? untold : unplaced).push(comb);
  };
  chain.cells.map((cell) => toComb(cell, levels, null)).forEach(visit);
  const size = [...levels.values()].find((level) => level.is_node)?.gpus ?? 0;
  const byNode = grouped(placed, (comb) => comb.node ?? "");
  const nodes = sorted([...byNode].map(([node, combs]) => onNode(node, combs, size)));
  return { nodes: [...byRack(nodes), ...untold], unplaced };
}

function onNode(node: string, combs: Comb[], size: number): Comb {
  const [only] = combs;
  const whole = only && combs.length === 1 && only.isNode;
  const part = { words: "part of a node", node, isNode: true };
  const comb = whole ? only : { ...together(`on ${node}`, node, combs), ...part };
  return { ...comb, others: Math.max(0, size - comb.gpus) };
}

/** Nodes in boxes for the racks (and fabrics) that their addresses tell; none where they do not. */
function byRack(nodes: Comb[]): Comb[] {
  const racks = grouped(nodes, aroundNode);
  if (racks.size === 1 && racks.has("")) return nodes;
  const boxes = [...racks].map(([rack, inside]) => {
    const about = { words: rack ? `nodes in ${rack}` : "nodes in no rack", aboveNodes: true };
    return { ...together(`in ${rack}`, rack || "No rack", inside), ...about };
  });
  return sorted(boxes);
}

/** "r2" of a node at "r2/node-3", or of a part of it at "r2/node-3/0". */
function aroundNode({ node, place, children }: Comb): string {
  const path = (place ?? children?.[0]?.place ?? "").split("/");
  return path.slice(0, Math.max(0, path.indexOf(node ?? ""))).join(" / ");
}

function sorted(combs: Comb[]): Comb[] {
  return combs.sort((a, b) => a.title.localeCompare(b.title, "en", { numeric: true }));
}

function grouped<T>(list: T[], keyOf: (each: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const each of list) {
    const key = keyOf(each);
    groups.set(key, [...(groups.get(key) ?? []), each]);
  }
  return groups;
}
