import type { Node } from "@/api/types";

/** Labels that say where a node stands. */
export const LABELS = ["rack", "fabric"] as const;
export type Label = (typeof LABELS)[number];

/** One line of the grid: the title of a rack, or nodes side by side. */
export type GridRow =
  | { kind: "title"; key: string; title: string; nodes: Node[] }
  | { kind: "nodes"; key: string; nodes: Node[] };

/** Nodes in lines of `columns`, rack by rack where any node has a rack. */
export function gridRows(nodes: Node[], columns: number): GridRow[] {
  nodes = [...nodes].sort((a, b) => compareNames(a.name, b.name));
  if (!nodes.some((node) => placeOf(node))) return lines(nodes, columns, "");
  const racks = new Map<string, Node[]>();
  for (const node of nodes) {
    const place = placeOf(node);
    racks.set(place, [...(racks.get(place) ?? []), node]);
  }
  return [...racks]
    .sort(([a], [b]) => byName(a, b))
    .flatMap(([place, members]) => [
      { kind: "title", key: `rack ${place}`, title: place || "No rack", nodes: members } as const,
      ...lines(members, columns, place),
    ]);
}

function placeOf({ labels }: Node): string {
  return [labels["fabric"], labels["rack"]].filter(Boolean).join(" / ");
}

const collator = new Intl.Collator("en", { numeric: true });

/** node-2 before node-10. */
export function compareNames(a: string, b: string): number {
  return collator.compare(a, b);
}

/** Those that stand nowhere come last. */
function byName(a: string, b: string): number {
  if (a === "" || b === "") return a === "" ? 1 : -1;
  return compareNames(a, b);
}

function lines(nodes: Node[], columns: number, place: string): GridRow[] {
  const rows: GridRow[] = [];
  for (let at = 0; at < nodes.length; at += columns)
    rows.push({ kind: "nodes", key: `${place} ${at}`, nodes: nodes.slice(at, at + columns) });
  return rows;
}
