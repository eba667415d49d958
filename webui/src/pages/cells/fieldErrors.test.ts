import { expect, test } from "vitest";
import type { Assignment, CellProblem } from "@/api/types";
import { keyOf } from "./draft";
import { fieldOfError } from "./fieldErrors";

const about: Assignment = {
  revision: 1,
  virtual_clusters: {
    "team-a": {
      cells: [
        { chain: "c", cell_type: "HALF", number: 1 },
        { chain: "c", cell_type: "NODE", number: 9 },
      ],
      quotas: { A100: 4 },
      pins: ["lab"],
    },
  },
  pins: [{ name: "lab", cell_type: "NODE", node: "n1", device: "" }],
};
const problem = (path: string, details = {}): CellProblem => ({
  code: "x",
  message: "",
  path,
  details,
});
const nodes = { at: "claim", key: keyOf({ vc: "team-a", chain: "c", type: "NODE" }) };

test.each([
  ["virtual_clusters.team-a.cells[1]", nodes],
  ["virtual_clusters.team-a.cells[1].number", nodes],
  [
    "virtual_clusters.team-a.quotas.A100",
    { at: "claim", key: keyOf({ vc: "team-a", chain: "", type: "A100" }) },
  ],
  ["virtual_clusters.team-a.pins[0]", { at: "pin", name: "lab" }],
  ["pins[0].node", { at: "pin", name: "lab" }],
  ["virtual_clusters.team-a", null],
  ["virtual_clusters.nobody.cells[0]", null],
  ["pins[7]", null],
])("%s shows at its field", (path, place) =>
  expect(fieldOfError(problem(path), about)).toEqual(place),
);

test("a shortage that no single owner makes shows at the foot of the column", () =>
  expect(fieldOfError(problem("", { chain: "c", cell_type: "NODE" }), about)).toEqual({
    at: "column",
    chain: "c",
    type: "NODE",
  }));

test("details alone lead to the field, too", () =>
  expect(
    fieldOfError(problem("", { virtual_cluster: "team-a", chain: "c", cell_type: "NODE" }), about),
  ).toEqual(nodes));
