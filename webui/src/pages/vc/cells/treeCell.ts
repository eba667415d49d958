import type { CellLevel, Chain } from "@/api/types";
import type { CellState, VcChain, VirtualCell } from "@/api/virtualClusters";
import { capitalize } from "@/format/names";

/** How a GPU is drawn. A job may still run on one that is bad or on a cordoned node. */
export type GpuLook = CellState | "used-bad";

/** A cell as it is drawn; numbers count GPUs. */
export interface TreeCell {
  /** Its address, which no other cell of the drawing has. */
  id: string;
  /** What it is called in the drawing: its node where it has one, else what it is. */
  title: string;
  /** What it is: "half node of 4 A100". */
  label: string;
  isNode: boolean;
  /** Contains nodes: a rack or a fabric. */
  aboveNodes: boolean;
  /** A single GPU. */
  leaf: boolean;
  gpus: number;
  used: number;
  bad: number;
  lent: number;
  state: GpuLook;
  pin: string | null;
  node: string | null;
  /** Address of the physical cell that it is bound to. */
  place: string | null;
  job: { id: string; name: string } | null;
  /** Null: not loaded yet, because there are many. */
  children: TreeCell[] | null;
  /** GPUs of the same node that are not of this virtual cluster. */
  otherGpus: number;
}

/** The types of cells of one chain, by name. */
export type Levels = Map<string, CellLevel>;

export function levelsOf(chains: Chain[], name: string): Levels {
  const own = chains.find((chain) => chain.chain === name)?.levels ?? [];
  return new Map(own.map((level) => [level.type, level]));
}

/** The cells as the virtual cluster sees them. Single GPUs that it owns lie together. */
export function ownCells({ chain, cells }: VcChain, levels: Levels): TreeCell[] {
  const treeCells = cells.map((cell) => toTreeCell(cell, levels, null));
  const singles = treeCells.filter((treeCell) => treeCell.leaf);
  if (singles.length < 2) return treeCells;
  const rest = treeCells.filter((treeCell) => !treeCell.leaf);
  return [...rest, groupCells(`${chain} singles`, "Single GPUs", singles)];
}

/** All GPUs below, in the order in which they are drawn. */
export function leaves(treeCell: TreeCell): TreeCell[] {
  if (treeCell.leaf) return [treeCell];
  return (treeCell.children ?? []).flatMap(leaves);
}

/** Jobs on these cells and how many of the GPUs each uses, largest first. */
export function jobsOn(treeCells: TreeCell[]): { id: string; name: string; gpus: number }[] {
  const found = new Map<string, { id: string; name: string; gpus: number }>();
  for (const { job } of treeCells.flatMap(leaves)) {
    if (!job) continue;
    const known = found.get(job.id);
    found.set(job.id, { ...job, gpus: (known?.gpus ?? 0) + 1 });
  }
  return [...found.values()].sort((a, b) => b.gpus - a.gpus || a.name.localeCompare(b.name));
}

/** Puts what was read later into its place in the trees. */
export function withChildren(cells: VirtualCell[], read: Map<string, VirtualCell[]>) {
  return cells.map((cell): VirtualCell => {
    const children = cell.children ?? read.get(cell.address) ?? null;
    return { ...cell, children: children && withChildren(children, read) };
  });
}

export function toTreeCell(cell: VirtualCell, levels: Levels, around: string | null): TreeCell {
  const level = levels.get(cell.type);
  const node = cell.physical?.node ?? around;
  const isNode = level?.is_node ?? false;
  const words = level?.words ?? cell.type;
  const leaf = cell.gpus === 1 && !cell.children;
  const aboveNodes = level?.kind === "rack" || level?.kind === "fabric";
  return {
    id: cell.address,
    title: node ?? (isNode ? "No place yet" : capitalize(aboveNodes ? words : shortLabel(words))),
    label: words,
    isNode,
    aboveNodes,
    leaf,
    gpus: cell.gpus,
    used: cell.used,
    bad: cell.bad,
    lent: cell.lent,
    state: leaf ? lookOf(cell) : cell.state,
    pin: cell.pin,
    node,
    place: cell.physical?.address ?? null,
    job: cell.job,
    children: cell.children?.map((child) => toTreeCell(child, levels, node)) ?? null,
    otherGpus: 0,
  };
}

function lookOf({ state, used, lent }: VirtualCell): GpuLook {
  return state === "bad" && used + lent > 0 ? "used-bad" : state;
}

/** "half node of 4 A100" is "half node" where the drawing shows the rest. */
function shortLabel(words: string): string {
  return words.split(" of ")[0] ?? words;
}

/** Cells under one name that is not a cell of the virtual cluster. */
export function groupCells(id: string, title: string, children: TreeCell[]): TreeCell {
  const sum = (of: (treeCell: TreeCell) => number) =>
    children.reduce((total, each) => total + of(each), 0);
  return {
    id,
    title,
    label: title,
    isNode: false,
    aboveNodes: false,
    leaf: false,
    gpus: sum((each) => each.gpus),
    used: sum((each) => each.used),
    bad: sum((each) => each.bad),
    lent: sum((each) => each.lent),
    state: "free",
    pin: null,
    node: null,
    place: null,
    job: null,
    children,
    otherGpus: 0,
  };
}
