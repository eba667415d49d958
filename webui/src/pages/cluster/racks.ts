import type { GridNode } from "@/api/grid";
import { compareNames } from "@/format/names";

/** Labels that say where a node stands. */
export const LABELS = ["rack", "fabric"] as const;
export type Label = (typeof LABELS)[number];

/** One line of the grid: the title of a rack, or nodes side by side. */
export type GridRow =
  | { kind: "title"; key: string; title: string; nodes: GridNode[] }
  | { kind: "nodes"; key: string; nodes: GridNode[] };

/** Nodes in lines of `columns`, rack by rack where any node has a rack. */
export function gridRows(nodes: GridNode[], columns: number): GridRow[] {
  nodes = [...nodes].sort((a, b) => compareNames(a.name, b.name));
  if (!nodes.some((node) => rackOf(node))) return lines(nodes, columns, "");
  const racks = new Map<string, GridNode[]>();
  for (const node of nodes) {
    const place = rackOf(node);
    racks.set(place, [...(racks.get(place) ?? []), node]);
  }
  return [...racks]
    .sort(([a], [b]) => byName(a, b))
    .flatMap(([place, members]) => [
      { kind: "title", key: `rack ${place}`, title: place || "No rack", nodes: members } as const,
      ...lines(members, columns, place),
    ]);
}

function rackOf({ labels }: GridNode): string {
  return [labels["fabric"], labels["rack"]].filter(Boolean).join(" / ");
}

/** Those that stand nowhere come last. */
function byName(a: string, b: string): number {
  if (a === "" || b === "") return a === "" ? 1 : -1;
  return compareNames(a, b);
}

function lines(nodes: GridNode[], columns: number, place: string): GridRow[] {
  const rows: GridRow[] = [];
  for (let at = 0; at < nodes.length; at += columns)
    rows.push({ kind: "nodes", key: `${place} ${at}`, nodes: nodes.slice(at, at + columns) });
  return rows;
}
