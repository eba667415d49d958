import { describe, expect, test } from "vitest";
import type { Assignment } from "@/api/types";
import {
  changes,
  clashes,
  keyOf,
  rebase,
  toAssignment,
  toDraft,
  withClaim,
  without,
  withPin,
} from "./draft";

const nlp = { cells: [], quotas: { A100: 8 }, pins: [] };
const vision = {
  cells: [{ chain: "c", cell_type: "NODE", number: 2 }],
  quotas: {},
  pins: ["lab"],
};
const pinned = { name: "lab", cell_type: "NODE", node: "n1", device: "" };
const assignment: Assignment = {
  revision: 3,
  virtual_clusters: { vision, nlp },
  pins: [pinned],
};
const base = toDraft(assignment);
const visionNodes = { vc: "vision", chain: "c", type: "NODE" };
const nlpCount = { vc: "nlp", chain: "", type: "A100" };
const lab = { ...pinned, vc: "vision" };

test("an assignment that was not edited is sent as it came", () =>
  expect(toAssignment(base, 3)).toEqual(assignment));

test("what is owned no more is not sent", () =>
  expect(
    toAssignment(withClaim(base, visionNodes, 0), 3).virtual_clusters["vision"]?.cells,
  ).toEqual([]));

describe("changes", () => {
  test("there are none at first", () => expect(changes(base, base)).toEqual([]));

  test("a number, a count and a pin are shown with before and after", () => {
    const draft = withPin(withClaim(withClaim(base, visionNodes, 3), nlpCount, 4), "lab", null);
    expect(changes(base, draft)).toEqual([
      { kind: "claim", key: keyOf(nlpCount), field: nlpCount, from: 8, to: 4 },
      { kind: "claim", key: keyOf(visionNodes), field: visionNodes, from: 2, to: 3 },
      { kind: "pin", key: "lab", from: lab, to: null },
    ]);
  });

  test("a number that was set back is no change", () =>
    expect(changes(base, withClaim(withClaim(base, visionNodes, 3), visionNodes, 2))).toEqual([]));

  test("each can be taken back alone", () => {
    const draft = withPin(withClaim(base, visionNodes, 3), "lab", { ...lab, vc: "nlp" });
    const all = changes(base, draft);
    for (const change of all) {
      const others = all.filter((each) => each !== change);
      expect(changes(base, without(draft, change))).toEqual(others);
    }
  });
});

describe("when another user saved meanwhile", () => {
  const mine = withClaim(base, visionNodes, 4);

  test("own changes are made anew on theirs", () => {
    const fresh = withClaim(base, nlpCount, 16);
    const merged = rebase(base, mine, fresh);
    expect(changes(fresh, merged).map((change) => change.key)).toEqual([keyOf(visionNodes)]);
    expect(merged.claims[keyOf(nlpCount)]).toBe(16);
    expect(clashes(base, mine, fresh).size).toBe(0);
  });

  test("what both changed to something else is pointed out, and own wins", () => {
    const fresh = withClaim(base, visionNodes, 1);
    expect(rebase(base, mine, fresh).claims[keyOf(visionNodes)]).toBe(4);
    expect([...clashes(base, mine, fresh)]).toEqual([keyOf(visionNodes)]);
  });

  test("what both changed to the same is no change any more", () => {
    const fresh = withClaim(base, visionNodes, 4);
    expect(changes(fresh, rebase(base, mine, fresh))).toEqual([]);
    expect(clashes(base, mine, fresh).size).toBe(0);
  });

  test("nothing is given to a virtual cluster that is gone", () => {
    const fresh = toDraft({ revision: 4, virtual_clusters: { nlp }, pins: [] });
    expect(toAssignment(rebase(base, mine, fresh), 4).virtual_clusters).toEqual({ nlp });
  });
});
