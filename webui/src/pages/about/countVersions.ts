import type { Node } from "@/api/types";

type Versions = Pick<Node, "agent_version" | "engine_version" | "driver_version">;

const PROGRAMS: { name: string; field: keyof Versions }[] = [
  { name: "Agent", field: "agent_version" },
  { name: "Container engine", field: "engine_version" },
  { name: "GPU driver", field: "driver_version" },
];

/** Counts the nodes by version of each program, the newest version first. A program that no node
 * reports, such as a GPU driver in a cluster without GPUs, is left out. */
export function countVersions(nodes: Versions[]) {
  return PROGRAMS.map(({ name, field }) => {
    const counts = new Map<string, number>();
    for (const { [field]: version } of nodes) {
      if (version) counts.set(version, (counts.get(version) ?? 0) + 1);
    }
    const versions = [...counts].map(([version, count]) => ({ version, count }));
    return { name, versions: versions.sort((a, b) => compare(b.version, a.version)) };
  }).filter(({ versions }) => versions.length > 0);
}

function compare(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}
