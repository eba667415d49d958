import { expect, test } from "vitest";
import type { SimulatedRun } from "@/api/simulations";
import { percentDone, policyLabel } from "@/features/simulations/labels";
import { comparedTo, runLabel } from "./labels";

const run = (scenario: "as_is" | "changed") =>
  ({ scenario, figures: { policy: "fifo" } }) as unknown as SimulatedRun;

test("a run is named by its cluster only where there are two", () => {
  expect(runLabel(run("as_is"), [run("as_is")])).toBe("fifo");
  const both = [run("as_is"), run("changed")];
  expect(both.map((one) => runLabel(one, both))).toEqual(["fifo, as it is", "fifo, changed"]);
  expect(policyLabel("priority_ageing:ageing_s=60")).toBe("priority ageing (ageing_s=60)");
});

test("a figure is compared to that of the first run", () => {
  expect(comparedTo(200, 150)).toBe("−25%");
  expect(comparedTo(100, 1200)).toBe("+1,100%");
  expect(comparedTo(0, 5)).toBe("");
  expect(comparedTo(5, 5)).toBe("");
});

test("progress ends at all jobs", () => {
  expect(percentDone({ jobs_ended: 0, jobs_total: 0 })).toBe(0);
  expect(percentDone({ jobs_ended: 1, jobs_total: 3 })).toBe(33);
  expect(percentDone({ jobs_ended: 4, jobs_total: 3 })).toBe(100);
});
