import { expect, test } from "vitest";
import { align, gpuSeries, inUnit, isMeasured, summarize, taskSeries, type Series } from "./series";

test("samples of different tasks meet at the step they lie in", () => {
  const lines = [
    { label: "a", times: [100.2, 110.9], values: [1, 2] },
    { label: "b", times: [108, 121], values: [3, 4] },
  ];
  expect(align(lines, 10)).toEqual({
    times: [100, 110, 120],
    rows: [
      [1, 2, null],
      [3, null, 4],
    ],
  });
});

test("many lines become their lowest, mean and highest", () => {
  const summary = summarize({
    times: [0, 10],
    rows: [
      [1, null],
      [3, null],
      [8, null],
    ],
  });
  expect(summary.rows).toEqual([
    [1, null],
    [4, null],
    [8, null],
  ]);
});

test("units are those a person reads", () => {
  const gpu = { uuid: "GPU-abcdef123", model: "", node: "", attempt_id: "", role: "w", index: 0 };
  const [busy] = gpuSeries([{ ...gpu, points: [[0, 97, 2048]] }], "utilization");
  const [memory] = gpuSeries([{ ...gpu, points: [[0, 97, 2048]] }], "memory");
  const [cpu] = taskSeries([{ attempt_id: "", role: "w", index: 1, points: [[0, 250, 0]] }], "cpu");
  expect([busy?.values, memory?.values, cpu?.values]).toEqual([[97], [2048], [2.5]]);
  const power = gpuSeries(
    [
      {
        ...gpu,
        points: [
          [0, 97, 2048, 350],
          [10, 97, 2048, null],
        ],
      },
    ],
    "power",
  );
  expect(power[0]?.values).toEqual([350, null]);
  const rates = [[0, 250, 0, 3_000_000, null, null, null]];
  const task = { attempt_id: "", role: "w", index: 1, points: rates };
  expect(taskSeries([task], "received")[0]?.values).toEqual([3]);
  expect(isMeasured(taskSeries([task], "sent"))).toBe(false);
  expect(inUnit([memory as Series])).toMatchObject({ unit: "GB", lines: [{ values: [2] }] });
  expect(inUnit([{ ...(memory as Series), values: [300] }]).unit).toBe("MB");
  expect([busy?.label, cpu?.label]).toEqual(["abcdef12", "w-1"]);
});
