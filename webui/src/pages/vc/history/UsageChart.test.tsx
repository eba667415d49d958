import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { toUsage } from "./shapes";
import { UsageChart } from "./UsageChart";

const at = Math.floor(Date.now() / 1000) - 600;

test("the chart says in a sentence what it draws, and the latest numbers", async () => {
  const points = toUsage([
    [at, 8, 6, 2, 0, 0, 4],
    [at + 60, 8, 4, 0, 1, 0, 2.5],
  ]);
  renderPage(<UsageChart model="NVIDIA A100" points={points} step={60} seconds={3600} />);
  expect(await screen.findByRole("img")).toHaveAccessibleName(
    "NVIDIA A100: 4 of 8 owned GPUs used at the end, at most 8 used, 2.5 waited for.",
  );
  expect(screen.getByText("waiting").textContent).toBe("waiting 2.5");
});
