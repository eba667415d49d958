import type { VcChain } from "@/api/virtualClusters";
import { toTreeCell, groupCells, type TreeCell, type Levels } from "./treeCell";

/** The same cells on the nodes that they are bound to, and what has no place yet. */
export function groupByNode(
  chain: VcChain,
  levels: Levels,
): { nodes: TreeCell[]; unplaced: TreeCell[] } {
  const placed: TreeCell[] = [];
  const untold: TreeCell[] = [];
  const unplaced: TreeCell[] = [];
  const visit = (treeCell: TreeCell) => {
    if (treeCell.node) placed.push(treeCell);
    else if (treeCell.place && treeCell.children) treeCell.children.forEach(visit);
    else (treeCell.place ? untold : unplaced).push(treeCell);
  };
  chain.cells.map((cell) => toTreeCell(cell, levels, null)).forEach(visit);
  const size = [...levels.values()].find((level) => level.is_node)?.gpus ?? 0;
  const byNode = grouped(placed, (treeCell) => treeCell.node ?? "");
  const nodes = sorted([...byNode].map(([node, treeCells]) => onNode(node, treeCells, size)));
  return { nodes: [...byRack(nodes), ...untold], unplaced };
}

function onNode(node: string, treeCells: TreeCell[], size: number): TreeCell {
  const [only] = treeCells;
  const whole = only && treeCells.length === 1 && only.isNode;
  const part = { words: "part of a node", node, isNode: true };
  const treeCell = whole ? only : { ...groupCells(`on ${node}`, node, treeCells), ...part };
  return { ...treeCell, otherGpus: Math.max(0, size - treeCell.gpus) };
}

/** Groups nodes by the racks (and fabrics) in their addresses; leaves them as they are without. */
function byRack(nodes: TreeCell[]): TreeCell[] {
  const racks = grouped(nodes, aroundNode);
  if (racks.size === 1 && racks.has("")) return nodes;
  const boxes = [...racks].map(([rack, inside]) => {
    const about = { words: rack ? `nodes in ${rack}` : "nodes in no rack", aboveNodes: true };
    return { ...groupCells(`in ${rack}`, rack || "No rack", inside), ...about };
  });
  return sorted(boxes);
}

/** "r2" of a node at "r2/node-3", or of a part of it at "r2/node-3/0". */
function aroundNode({ node, place, children }: TreeCell): string {
  const path = (place ?? children?.[0]?.place ?? "").split("/");
  return path.slice(0, Math.max(0, path.indexOf(node ?? ""))).join(" / ");
}

function sorted(treeCells: TreeCell[]): TreeCell[] {
  return treeCells.sort((a, b) => a.title.localeCompare(b.title, "en", { numeric: true }));
}

function grouped<T>(list: T[], keyOf: (each: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const each of list) {
    const key = keyOf(each);
    groups.set(key, [...(groups.get(key) ?? []), each]);
  }
  return groups;
}
