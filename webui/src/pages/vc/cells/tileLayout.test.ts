import { describe, expect, test } from "vitest";
import { A100, aCell, aChain } from "@/test/cells";
import { levelsOf, ownCells, type TreeCell } from "./treeCell";
import { hull, layOutTile, type GpuPosition } from "./tileLayout";

const [node] = ownCells(aChain([aCell("node", "n")]), levelsOf([A100], "a100")) as [TreeCell];
const distance = (a: GpuPosition, b: GpuPosition) => Math.hypot(a.x - b.x, a.y - b.y);
const pairs = (spots: GpuPosition[]) =>
  spots.flatMap((a, index) => spots.slice(index + 1).map((b) => [a, b] as const));

describe("a node of two halves", () => {
  const tile = layOutTile(node);

  test("has all its GPUs inside, and none upon another", () => {
    expect(tile.spots).toHaveLength(8);
    for (const { x, y } of tile.spots) {
      expect(x > 10 && x < tile.width - 10 && y > 11 && y < tile.height - 11).toBe(true);
    }
    expect(Math.min(...pairs(tile.spots).map(([a, b]) => distance(a, b)))).toBeGreaterThan(23);
  });

  test("has a hull around each half, and they do not touch", () => {
    expect(tile.groups.map((group) => [group.cell.id, group.height])).toEqual([
      ["n/0", 1],
      ["n/1", 1],
    ]);
    const [left, right] = tile.groups.map((group) => group.spots);
    const gaps = (left ?? []).flatMap((a) => (right ?? []).map((b) => distance(a, b)));
    expect(Math.min(...gaps)).toBeGreaterThan(2 * 10 + 2 * hull(1));
  });

  test("draws each GPU where its group has it", () => {
    for (const group of tile.groups) {
      for (const spot of group.spots) expect(tile.spots).toContainEqual(spot);
    }
  });
});

test("GPUs of others are drawn, too, without being anybody's here", () => {
  const tile = layOutTile({ ...node, otherGpus: 3 });
  expect(tile.spots.filter((spot) => spot.cell === null)).toHaveLength(3);
});

test("a single GPU is a tile of its own", () => {
  const [gpu] = ownCells(aChain([aCell("gpu", "g")]), levelsOf([A100], "a100")) as [TreeCell];
  const tile = layOutTile(gpu);
  expect([tile.spots.length, tile.groups.length]).toEqual([1, 0]);
});

test("many flat GPUs are a treeCell that is broader than high", () => {
  const children = Array.from({ length: 32 }, (_, n) => ({ ...node, id: String(n), leaf: true }));
  const { width, height } = layOutTile({ ...node, children });
  expect(width).toBeGreaterThan(height);
});
