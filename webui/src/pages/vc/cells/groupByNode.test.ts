import { expect, test } from "vitest";
import { A100, aCell, aChain } from "@/test/cells";
import { levelsOf, type TreeCell } from "./treeCell";
import { groupByNode } from "./groupByNode";

const levels = levelsOf([A100], "a100");
const placed = (address: string, node: string | null) => ({ physical: { address, node } });
const titles = (treeCells: TreeCell[]) => treeCells.map((treeCell) => treeCell.title);

/** A rack with a job on the first of its two nodes. */
const rack = aCell("rack", "v/0", {
  used: 8,
  children: [aCell("node", "v/0/0", { used: 8, ...placed("n1", "n1") }), aCell("node", "v/0/1")],
  ...placed("pr", null),
});

test("over the nodes there is a box for each node that is used, and the rest is shown", () => {
  const half = aCell("half", "h", placed("x", "n10"));
  const { nodes, unplaced } = groupByNode(
    aChain([rack, half, aCell("gpu", "g", placed("y", "n10"))]),
    levels,
  );
  expect(nodes.map(({ title, gpus, otherGpus: others }) => [title, gpus, others])).toEqual([
    ["n1", 8, 0],
    ["n10", 5, 3],
  ]);
  expect(unplaced.map((treeCell) => treeCell.id)).toEqual(["v/0/1"]);
});

test("nodes are in boxes for their racks, where addresses name racks", () => {
  const at = (rack: string, node: string) => aCell("node", node, placed(`${rack}/${node}`, node));
  const { nodes } = groupByNode(aChain([at("r2", "a"), at("r10", "b"), at("r2", "c")]), levels);
  expect(nodes.map((rack) => [rack.title, titles(rack.children ?? [])])).toEqual([
    ["r2", ["a", "c"]],
    ["r10", ["b"]],
  ]);
});

test("a used rack that was not loaded yet is not taken for an unused one", () => {
  const rack = aCell("rack", "r", { used: 3, children: null, ...placed("pr", null) });
  const { nodes, unplaced } = groupByNode(aChain([rack]), levels);
  expect([titles(nodes), unplaced]).toEqual([["Rack of 2 nodes of 8 A100"], []]);
});
