import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { components } from "./schema";

type Grid = components["schemas"]["Grid"];

/** A GPU in short. `virtualCluster` is null where it is free, and where it is not yours to know. */
export interface GridGpu {
  model: string;
  used: boolean;
  bad: boolean;
  virtualCluster: string | null;
}

/** A node in short. */
export interface GridNode {
  name: string;
  state: components["schemas"]["NodeState"];
  cordoned: boolean;
  draining: boolean;
  /** Rack and fabric, where it has them. */
  labels: Record<string, string>;
  gpus: GridGpu[];
}

export interface ClusterGrid {
  revision: string;
  nodes: GridNode[];
}

/** All nodes in short. Read again, only what has changed since comes, and nodes that have not
 * changed stay the same objects. */
export const grid = queryOptions({
  queryKey: ["nodes", "grid"],
  queryFn: async ({ client: queries, signal }): Promise<ClusterGrid> => {
    const known = queries.getQueryData<ClusterGrid>(["nodes", "grid"]);
    const query = known ? { since: known.revision } : {};
    const answer = await unwrap(client.GET("/api/v1/cluster/grid", { params: { query }, signal }));
    return merged(known, answer);
  },
  structuralSharing: false,
});

/** Percent of each GPU of some nodes (a comma list of names); null: not known. */
export const gridUse = (names: string) =>
  queryOptions({
    queryKey: ["nodes", "use", names],
    queryFn: async ({ signal }) => {
      const params = { query: { nodes: names } };
      return (await unwrap(client.GET("/api/v1/cluster/use", { params, signal }))).use;
    },
    placeholderData: (previous) => previous,
  });

export function merged(known: ClusterGrid | undefined, answer: Grid): ClusterGrid {
  const { revision, whole } = answer;
  const fresh = unpack(answer);
  if (whole || !known) return { revision, nodes: fresh };
  if (fresh.length === 0 && answer.removed.length === 0) return { revision, nodes: known.nodes };
  const byName = new Map(known.nodes.map((node) => [node.name, node]));
  for (const name of answer.removed) byName.delete(name);
  for (const node of fresh) byName.set(node.name, node);
  return { revision, nodes: [...byName.values()] };
}

function unpack({ nodes, models, virtual_clusters, places }: Grid): GridNode[] {
  const gpuOf = gpus(models, virtual_clusters);
  const labels = places.map((place) =>
    Object.fromEntries(Object.entries(place).filter(([, value]) => value !== "")),
  );
  return nodes.map((node) => ({
    name: node.name,
    state: node.state,
    cordoned: node.cordoned ?? false,
    draining: node.draining ?? false,
    labels: node.place === undefined ? NOWHERE : (labels[node.place] ?? NOWHERE),
    gpus: node.used_by.map((user, at) => {
      const model = (node.models.length === 1 ? node.models[0] : node.models[at]) ?? 0;
      return gpuOf(model, user, node.bad?.includes(at) ?? false);
    }),
  }));
}

const NOWHERE: Record<string, string> = {};

/** One object for all GPUs that are alike: there are tens of thousands of them. */
function gpus(models: string[], vcs: (string | null)[]) {
  const made = new Map<string, GridGpu>();
  return (model: number, user: number, bad: boolean): GridGpu => {
    const key = `${model} ${user} ${bad}`;
    const gpu = made.get(key) ?? {
      model: models[model] ?? "",
      used: user >= 0,
      bad,
      virtualCluster: vcs[user] ?? null,
    };
    made.set(key, gpu);
    return gpu;
  };
}
