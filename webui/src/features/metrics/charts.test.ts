import { expect, test } from "vitest";
import { chartText } from "./charts";

const percent = (value: number) => `${value}%`;

test("a chart is said in words: the last value of each line, and its range", () => {
  const rows = [
    [10, 95, null, 40],
    [7, 7, 7, null],
    [null, null, null, null],
  ];
  expect(chartText("GPU utilisation", ["GPU 0", "GPU 1", "GPU 2"], rows, percent)).toBe(
    "GPU utilisation. GPU 0: 40% at the end, from 10% to 95%. GPU 1: 7% at the end. " +
      "GPU 2: nothing measured.",
  );
});

test("of very many lines the first ones are named, and the others counted", () => {
  const labels = Array.from({ length: 64 }, (_, at) => `GPU ${at}`);
  const words = chartText(
    "GPU memory",
    labels,
    labels.map(() => [1]),
    percent,
  );
  expect(words).toContain("GPU 9:");
  expect(words).not.toContain("GPU 10:");
  expect(words).toContain("And 54 more.");
});
