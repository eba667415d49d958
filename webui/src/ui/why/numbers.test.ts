import { expect, test } from "vitest";
import { numbersOf } from "./numbers";

const reason = (details: Record<string, unknown>) => ({ code: "x", message: "", details });

test("numbers are read as the scheduler tells them, times as milliseconds", () => {
  const told = {
    needs: { gpus: 16, gpu_model: "A100", tasks: 2, shape: "2 nodes of 8 A100 within one rack" },
    owns: 32,
    used: 24,
    used_by: [{ gang: "j1", name: "bert", gpus: 8, until: 1000 }],
    more: 2,
    bad: 8,
    ahead: 1,
    expected_start: 1000.5,
    opportunistic_now: true,
  };
  expect(numbersOf(reason(told))).toEqual({
    needs: { gpus: 16, model: "A100", tasks: 2, words: "2 nodes of 8 A100 within one rack" },
    owns: 32,
    used: 24,
    unit: "GPU",
    used_by: [{ id: "j1", name: "bert", gpus: 8, until: 1_000_000 }],
    more: 2,
    bad: 8,
    ahead: 1,
    expected_start: 1_000_500,
    opportunistic_now: true,
  });
});

test("what is missing, unknown or of another shape is left out", () =>
  expect(
    numbersOf(reason({ needs: "much", used_by: [{}, null], expected_start: null, bad: "x" })),
  ).toEqual({
    needs: null,
    owns: null,
    used: null,
    unit: "GPU",
    used_by: [],
    more: 0,
    bad: null,
    ahead: null,
    expected_start: null,
    opportunistic_now: false,
  }));

test("who needs whole nodes is told in nodes", () => {
  const nodes = { owns: 4, used: 3, bad: 1 };
  const told = { needs: { whole_nodes: true }, owns: 32, used: 20, bad: 1, nodes };
  expect(numbersOf(reason(told))).toMatchObject({ owns: 4, used: 3, bad: 1, unit: "node" });
});
