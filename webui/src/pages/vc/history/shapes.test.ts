import { describe, expect, test } from "vitest";
import { area, gpuAxis, line, pointAt, runs, toUsage } from "./shapes";

const points = toUsage([
  [0, 8, 2, 0, 0, 0, 4],
  [60, 8, 4, 1, 0, 0, 0],
  [600, 8, 4, 1, 0, 0, 0],
]);
const same = (value: number) => value;

test("a point is a time and six numbers", () =>
  expect(points[0]).toEqual({
    at: 0,
    owned: 8,
    used: 2,
    borrowed: 0,
    lent: 0,
    bad: 0,
    waiting: 4,
  }));

test("where nothing was counted there is a hole", () =>
  expect(runs(points, 60).map((run) => run.length)).toEqual([2, 1]));

test("a value holds until the next one", () => {
  const [run] = runs(points, 60);
  expect(line(run ?? [], 60, (use) => use.used, same, same)).toBe(
    "M0.0 2.0L60.0 2.0L60.0 4.0L120.0 4.0",
  );
});

test("an area without height is not drawn", () =>
  expect(
    area(
      points,
      60,
      (use) => use.owned,
      (use) => use.owned + use.lent,
      same,
      same,
    ),
  ).toBe(""));

describe("the axis of GPUs has few round lines", () => {
  test.each([
    [0, [0, 1]],
    [3, [0, 1, 2, 3]],
    [8, [0, 2, 4, 6, 8]],
    [100, [0, 32, 64, 96, 128]],
  ])("up to %d", (highest, lines) => expect(gpuAxis(highest).lines).toEqual(lines));
});

test("the pointer finds the step that it is in, and nothing in a hole", () => {
  expect(pointAt(points, 70, 60)?.at).toBe(60);
  expect(pointAt(points, 400, 60)).toBeNull();
  expect(pointAt(points, -5, 60)).toBeNull();
});
