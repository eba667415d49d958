import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { Sums } from "@/api/usage";
import { renderPage } from "@/test/render";
import { Totals } from "./Totals";

const HOUR = 3600;
const SUMS: Sums = {
  allocated_s: 3 * HOUR,
  guaranteed_s: 3 * HOUR,
  borrowed_s: 0,
  used_s: 2 * HOUR,
  idle_s: HOUR,
  unknown_s: 0,
  utilization: 67,
};

const shown = async (sums: Sums) => {
  const { container } = renderPage(<Totals sums={sums} />);
  await screen.findByText("Allocated");
  return [...container.querySelectorAll("dt")].map(
    (name) => `${name.textContent}: ${name.nextElementSibling?.textContent}`,
  );
};

test("measured time is used or idle", async () => {
  expect((await shown(SUMS)).slice(3)).toEqual([
    "Used: 2 GPU-h",
    "Idle: 1 GPU-h",
    "Utilisation: 67%",
  ]);
});

test("time that is not measured yet is neither used nor idle", async () => {
  const unknown = { ...SUMS, used_s: 0, idle_s: 0, unknown_s: 3 * HOUR, utilization: null };
  expect((await shown(unknown)).slice(3)).toEqual(["Not measured: 3 GPU-h"]);
});
