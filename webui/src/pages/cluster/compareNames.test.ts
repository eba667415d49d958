import { expect, test } from "vitest";
import { aGridNode } from "@/test/rows";
import { gridRows } from "./racks";

test("finding U22: node-2 stands before node-10", () => {
  const nodes = ["node-10", "node-2", "node-1"].map((name) => aGridNode({ name }));
  const [row] = gridRows(nodes, 8);
  expect(row?.nodes.map((node) => node.name)).toEqual(["node-1", "node-2", "node-10"]);
});
