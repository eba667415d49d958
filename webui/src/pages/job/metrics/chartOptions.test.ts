import { expect, test } from "vitest";
import { timeRange } from "./chartOptions";

test("finding U8: one sample stands at the end of some minutes, not in the middle of years", () => {
  expect(timeRange(1000, 1000)).toEqual([700, 1000]);
  expect(timeRange(1000, 5000)).toEqual([1000, 5000]);
  const [from, to] = timeRange(null, null);
  expect(to - from).toBe(300);
});
