import { expect, test } from "vitest";
import type { GridGpu } from "@/api/grid";
import { aGridNode } from "@/test/rows";
import { matching, NO_FILTER, virtualClustersOf, vcColour } from "./filter";

function gpu(part: Partial<GridGpu>): GridGpu {
  return { model: "A100", used: false, bad: false, virtualCluster: null, ...part };
}

const nodes = [
  aGridNode({ name: "free", gpus: [gpu({})] }),
  aGridNode({ name: "full", gpus: [gpu({ model: "H100", used: true, virtualCluster: "b" })] }),
  aGridNode({ name: "bad", gpus: [gpu({ bad: true })] }),
  aGridNode({ name: "away", state: "LOST", gpus: [gpu({ used: true, virtualCluster: "a" })] }),
  aGridNode({ name: "shut", cordoned: true, gpus: [gpu({})] }),
];
const names = (part: Partial<typeof NO_FILTER>) =>
  matching(nodes, { ...NO_FILTER, ...part }).map((node) => node.name);

test("nodes with something free take new tasks", () =>
  expect(names({ show: "free" })).toEqual(["free"]));
test("problems are bad GPUs and nodes that are away", () =>
  expect(names({ show: "problems" })).toEqual(["bad", "away"]));
test("cordoned ones", () => expect(names({ show: "cordoned" })).toEqual(["shut"]));
test("by GPU model", () => expect(names({ model: "H100" })).toEqual(["full"]));
test("by name", () => expect(names({ text: "FUL" })).toEqual(["full"]));

test("each virtual cluster has its own colour", () => {
  const all = virtualClustersOf(nodes);
  expect(all).toEqual(["a", "b"]);
  expect(vcColour("a", all)).not.toBe(vcColour("b", all));
});
