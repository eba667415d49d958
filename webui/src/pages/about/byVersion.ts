import type { Cluster } from "@/api/types";

const PROGRAMS = [
  { name: "Agent", key: "agent" },
  { name: "Container engine", key: "engine" },
  { name: "GPU driver", key: "driver" },
];

/** Returns the programs of the nodes, each with its versions, the newest first. A program that no
 * node reports, such as a GPU driver in a cluster without GPUs, is left out. */
export function byVersion(counts: NonNullable<Cluster["versions"]>) {
  return PROGRAMS.map(({ name, key }) => {
    const found = Object.entries(counts[key] ?? {}).map(([version, count]) => ({
      version,
      count,
    }));
    return { name, found: found.sort((a, b) => compare(b.version, a.version)) };
  }).filter(({ found }) => found.length > 0);
}

function compare(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}
