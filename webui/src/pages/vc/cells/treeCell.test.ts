import { expect, test } from "vitest";
import { A100, aCell, aChain } from "@/test/cells";
import { jobsOn, leaves, levelsOf, ownCells, withChildren, type TreeCell } from "./treeCell";

const levels = levelsOf([A100], "a100");
const train = { id: "j1", name: "train" };
const placed = (address: string, node: string | null) => ({ physical: { address, node } });

/** A rack on the first two nodes; train uses the first half of the first. */
function busyRack() {
  const used = Array.from({ length: 4 }, (_, n) =>
    aCell("gpu", `v/0/0/0/${n}`, { state: "used", used: 1, job: train, ...placed(`p${n}`, "n1") }),
  );
  const half = aCell("half", "v/0/0/0", { used: 4, children: used, ...placed("ph", "n1") });
  const node = aCell("node", "v/0/0", {
    used: 4,
    children: [half, aCell("half", "v/0/0/1")],
    ...placed("pn", "n1"),
  });
  return aCell("rack", "v/0", {
    used: 4,
    children: [node, aCell("node", "v/0/1")],
    ...placed("pr", null),
  });
}

const titles = (treeCells: TreeCell[]) => treeCells.map((treeCell) => treeCell.title);

test("a cell is called by its node, once it has one", () => {
  const [rack] = ownCells(aChain([busyRack()]), levels);
  expect(titles(rack?.children ?? [])).toEqual(["n1", "No place yet"]);
  expect(rack).toMatchObject({ title: "Rack of 2 nodes of 8 A100", aboveNodes: true });
});

test("what has no place of its own lies on the node that contains it", () => {
  const [rack] = ownCells(aChain([busyRack()]), levels);
  const free = rack?.children?.[0]?.children?.[1];
  expect(free).toMatchObject({ node: "n1", place: null });
});

test("single GPUs lie together", () => {
  const cells = [aCell("node", "a"), aCell("gpu", "b"), aCell("gpu", "c", { used: 1 })];
  const treeCells = ownCells(aChain(cells), levels);
  expect(titles(treeCells)).toEqual(["No place yet", "Single GPUs"]);
  expect(treeCells[1]).toMatchObject({ gpus: 2, used: 1, leaf: false });
});

test("jobs are shown with their GPUs, the largest first", () => {
  const eval_ = aCell("gpu", "g", { job: { id: "j2", name: "eval" } });
  expect(jobsOn(ownCells(aChain([eval_, busyRack()]), levels))).toEqual([
    { ...train, gpus: 4 },
    { id: "j2", name: "eval", gpus: 1 },
  ]);
});

test("what was read later gets into its place, however deep", () => {
  const rack = aCell("rack", "r", { children: null });
  const nodes = [aCell("node", "r/0"), aCell("node", "r/1", { children: null })];
  const read = new Map([
    ["r", nodes],
    ["r/1", [aCell("half", "r/1/0"), aCell("half", "r/1/1")]],
  ]);
  const [whole] = ownCells(aChain(withChildren([rack], read)), levels);
  expect(whole && leaves(whole)).toHaveLength(16);
});
