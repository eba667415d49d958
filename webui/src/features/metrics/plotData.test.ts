import { expect, test } from "vitest";
import { formatElapsed, formatValue, plotRows, pointsOf, valueAt } from "./plotData";

const POINTS = [
  [2, 1010, 0.5],
  [1, 1000, 1],
];

test("points are drawn by step, by time, and by the time since the run began", () => {
  expect(pointsOf(POINTS, "step")).toEqual([
    [1, 1],
    [2, 0.5],
  ]);
  expect(pointsOf(POINTS, "time")).toEqual([
    [1000, 1],
    [1010, 0.5],
  ]);
  expect(pointsOf(POINTS, "elapsed", 1000)).toEqual([
    [0, 1],
    [10, 0.5],
  ]);
});

test("lines of different lengths have common places", () => {
  const lines = [
    { label: "a", color: 0, points: pointsOf(POINTS, "step") },
    { label: "b", color: 1, points: [[3, -1] as [number, number], [1, 4] as [number, number]] },
  ];
  expect(plotRows(lines, false)).toEqual({
    x: [1, 2, 3],
    rows: [
      [1, 0.5, null],
      [4, null, -1],
    ],
  });
  expect(plotRows(lines, true).x).toEqual([1, 2]);
});

test("between two points a line has the value of the one before", () => {
  const row = [null, 2, null, 3, null];
  expect([0, 1, 2, 4].map((at) => valueAt(row, at))).toEqual([null, 2, 2, 3]);
  expect(valueAt(undefined, 3)).toBeNull();
});

test("numbers have the figures that matter", () => {
  expect([0, 0.123456, 1234.56, 1.23e-7, -2e9].map(formatValue)).toEqual([
    "0",
    "0.1235",
    "1,235",
    "1.23e-7",
    "-2.00e9",
  ]);
  expect([45, 90, 720, 12_000, 3600].map(formatElapsed)).toEqual([
    "45s",
    "1m 30s",
    "12m",
    "3h 20m",
    "1h",
  ]);
});
