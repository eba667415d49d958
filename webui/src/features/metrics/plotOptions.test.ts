import { expect, test } from "vitest";
import { xRange } from "./plotOptions";

test("plots that share a range have it until the user looks closer", () => {
  expect(xRange([10, 20, 30], 10, 30, [0, 60])).toEqual([0, 60]);
  expect(xRange([10, 20, 30], 12, 18, [0, 60])).toEqual([12, 18]);
  expect(xRange([10, 20, 30], 10, 30, undefined)).toEqual([10, 30]);
});

test("one point stands in the middle, and none leaves an empty plot", () => {
  expect(xRange([5], 5, 1e9, undefined)).toEqual([4, 6]);
  expect(xRange([], null, null, undefined)).toEqual([0, 1]);
});
