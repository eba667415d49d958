import { expect, test } from "vitest";
import type { GridNode } from "@/api/grid";
import { aGridNode } from "@/test/rows";
import { gridRows } from "./racks";

function node(name: string, labels: Record<string, string> = {}): GridNode {
  return aGridNode({ name, labels });
}

const rackLabels = (nodes: GridNode[], columns = 2) =>
  gridRows(nodes, columns).map((row) =>
    row.kind === "title" ? `# ${row.title}` : row.nodes.map((each) => each.name).join(" "),
  );

test("without racks there are only lines", () =>
  expect(rackLabels([node("a"), node("b"), node("c")])).toEqual(["a b", "c"]));

test("racks come in their order, each with its own lines, the rest last", () =>
  expect(
    rackLabels([
      node("a", { rack: "r10" }),
      node("b"),
      node("c", { rack: "r2" }),
      node("d", { rack: "r2" }),
      node("e", { rack: "r2" }),
    ]),
  ).toEqual(["# r2", "c d", "e", "# r10", "a", "# No rack", "b"]));

test("racks of different fabrics are different racks", () =>
  expect(
    rackLabels([node("a", { rack: "r1", fabric: "f2" }), node("b", { rack: "r1", fabric: "f1" })]),
  ).toEqual(["# f1 / r1", "b", "# f2 / r1", "a"]));
