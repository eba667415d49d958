import type { CellLevel, Chain } from "@/api/types";
import type { CellState, VcChain, VirtualCell } from "@/api/vc";

/** A cell as it is drawn; numbers count GPUs. */
export interface Comb {
  /** Its address, which no other cell of the drawing has. */
  id: string;
  /** What it is called in the drawing: its node where it has one, else what it is. */
  title: string;
  /** What it is: "half node of 4 A100". */
  words: string;
  isNode: boolean;
  /** Contains nodes: a rack or a fabric. */
  aboveNodes: boolean;
  /** A single GPU. */
  leaf: boolean;
  gpus: number;
  used: number;
  bad: number;
  lent: number;
  state: CellState;
  pin: string | null;
  node: string | null;
  /** Address of the physical cell that it is bound to. */
  place: string | null;
  job: { id: string; name: string } | null;
  /** Null: not told yet, because there are so many. */
  children: Comb[] | null;
  /** GPUs of the same node that are not of this virtual cluster. */
  others: number;
}

/** The types of cells of one chain, by name. */
export type Levels = Map<string, CellLevel>;

export function levelsOf(chains: Chain[], name: string): Levels {
  const own = chains.find((chain) => chain.chain === name)?.levels ?? [];
  return new Map(own.map((level) => [level.type, level]));
}

/** The cells as the virtual cluster sees them. Single GPUs that it owns lie together. */
export function ownCells({ chain, cells }: VcChain, levels: Levels): Comb[] {
  const combs = cells.map((cell) => toComb(cell, levels, null));
  const singles = combs.filter((comb) => comb.leaf);
  if (singles.length < 2) return combs;
  const rest = combs.filter((comb) => !comb.leaf);
  return [...rest, together(`${chain} singles`, "Single GPUs", singles)];
}

/** All GPUs below, in the order in which they are drawn. */
export function leaves(comb: Comb): Comb[] {
  if (comb.leaf) return [comb];
  return (comb.children ?? []).flatMap(leaves);
}

/** Jobs on these cells and how many of the GPUs each uses, largest first. */
export function jobsOn(combs: Comb[]): { id: string; name: string; gpus: number }[] {
  const found = new Map<string, { id: string; name: string; gpus: number }>();
  for (const { job } of combs.flatMap(leaves)) {
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

export function toComb(cell: VirtualCell, levels: Levels, around: string | null): Comb {
  const level = levels.get(cell.type);
  const node = cell.physical?.node ?? around;
  const isNode = level?.is_node ?? false;
  const words = level?.words ?? cell.type;
  const aboveNodes = level?.kind === "rack" || level?.kind === "fabric";
  return {
    id: cell.address,
    title: node ?? (isNode ? "No place yet" : capital(aboveNodes ? words : short(words))),
    words,
    isNode,
    aboveNodes,
    leaf: cell.gpus === 1 && !cell.children,
    gpus: cell.gpus,
    used: cell.used,
    bad: cell.bad,
    lent: cell.lent,
    state: cell.state,
    pin: cell.pin,
    node,
    place: cell.physical?.address ?? null,
    job: cell.job,
    children: cell.children?.map((child) => toComb(child, levels, node)) ?? null,
    others: 0,
  };
}

/** "half node of 4 A100" is "half node" where the drawing shows the rest. */
function short(words: string): string {
  return words.split(" of ")[0] ?? words;
}

function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Cells under one name that is not a cell of the virtual cluster. */
export function together(id: string, title: string, children: Comb[]): Comb {
  const sum = (of: (comb: Comb) => number) => children.reduce((total, each) => total + of(each), 0);
  return {
    id,
    title,
    words: title,
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
    others: 0,
  };
}
