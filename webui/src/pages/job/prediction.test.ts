import { describe, expect, it } from "vitest";
import { expectation, predictionSource, restartCost, type Prediction } from "./prediction";

const NOW = new Date(2026, 10, 23, 14, 0).getTime();
const MINUTE = 60_000;
const prediction: Prediction = {
  median_s: 1800,
  low_s: 1200,
  high_s: 3600,
  source: "name",
  jobs: 12,
  leave_s: null,
  warmup_s: null,
};

describe("what is expected of a job", () => {
  it("is how long it runs, before it starts", () => {
    expect(expectation(prediction, null, NOW)).toEqual({
      text: "20m 00s to 1h 00m",
      note: "in 80 % of cases",
    });
  });

  it("is when it ends, once it runs", () => {
    expect(expectation(prediction, NOW, NOW).text).toBe("14:20 to 15:00");
  });

  it("begins now where the earliest end is over", () => {
    expect(expectation(prediction, NOW - 30 * MINUTE, NOW).text).toBe("14:00 to 14:30");
  });

  it("says so where it runs for longer", () => {
    expect(expectation(prediction, NOW - 61 * MINUTE, NOW)).toEqual({
      text: "longer than expected",
      note: "it took 30m 00s before",
    });
  });

  it("shows no interval of a few jobs", () => {
    const few = { ...prediction, low_s: null, high_s: null, jobs: 2 };
    expect(expectation(few, null, NOW)).toEqual({ text: "about 30m 00s", note: "" });
    expect(predictionSource(few)).toBe("By 2 earlier jobs of its owner with this name.");
  });

  it("shows what was measured of a restart", () => {
    expect(restartCost(prediction)).toBeNull();
    expect(restartCost({ ...prediction, warmup_s: 40 })).toBe("40s until it writes again");
    expect(restartCost({ ...prediction, leave_s: 12, warmup_s: 40 })).toBe(
      "12s to save and leave, 40s until it writes again",
    );
  });
});
