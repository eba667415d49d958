import { expect, test } from "vitest";
import { merged } from "./grid";

const EMPTY = { models: [], virtual_clusters: [], places: [], nodes: [], removed: [] };

const first = merged(undefined, {
  ...EMPTY,
  revision: "1.x",
  whole: true,
  models: ["A100", "H100"],
  virtual_clusters: ["vision", null],
  places: [{ fabric: "f1", rack: "" }],
  nodes: [
    { name: "a", state: "ONLINE", models: [0], used_by: [-1, 0], place: 0 },
    { name: "b", state: "LOST", models: [0, 1], used_by: [1, -1], bad: [1], cordoned: true },
  ],
});

test("a node in short says of each GPU what it is and who has it", () => {
  expect(first.nodes[0]).toMatchObject({ name: "a", labels: { fabric: "f1" }, cordoned: false });
  expect(first.nodes[0]?.gpus).toEqual([
    { model: "A100", used: false, bad: false, virtualCluster: null },
    { model: "A100", used: true, bad: false, virtualCluster: "vision" },
  ]);
  expect(first.nodes[1]?.gpus).toEqual([
    { model: "A100", used: true, bad: false, virtualCluster: null },
    { model: "H100", used: false, bad: true, virtualCluster: null },
  ]);
});

test("finding U21: nodes that have not changed stay the same objects", () => {
  const rest = merged(first, { ...EMPTY, revision: "2.x", whole: false });
  expect(rest.nodes).toBe(first.nodes);
  const next = merged(rest, {
    ...EMPTY,
    revision: "3.x",
    whole: false,
    nodes: [{ name: "c", state: "ONLINE", models: [], used_by: [] }],
    removed: ["b"],
  });
  expect(next.nodes.map((node) => node.name)).toEqual(["a", "c"]);
  expect(next.nodes[0]).toBe(first.nodes[0]);
  expect(next.revision).toBe("3.x");
});
