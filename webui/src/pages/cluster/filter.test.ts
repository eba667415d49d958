import { expect, test } from "vitest";
import type { Gpu } from "@/api/types";
import { aNode } from "@/test/rows";
import { matching, NO_FILTER, virtualClustersOf, vcColour } from "./filter";

function gpu(part: Partial<Gpu>): Gpu {
  return {
    uuid: "GPU-1",
    model: "A100",
    index: 0,
    memory_mb: 1,
    health: "HEALTHY",
    problem: "",
    used_by: null,
    utilization: null,
    memory_used_mb: null,
    ...part,
  };
}

const nodes = [
  aNode({ name: "free", gpus: [gpu({})] }),
  aNode({ name: "full", gpus: [gpu({ model: "H100", used_by: { virtual_cluster: "b" } })] }),
  aNode({ name: "bad", gpus: [gpu({ health: "BAD" })] }),
  aNode({ name: "away", state: "LOST", gpus: [gpu({ used_by: { virtual_cluster: "a" } })] }),
  aNode({ name: "shut", cordoned: true, gpus: [gpu({})] }),
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
