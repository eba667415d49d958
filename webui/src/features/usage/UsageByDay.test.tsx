import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { UsageRow } from "@/api/usage";
import { renderPage } from "@/test/render";
import { UsageByDay } from "./UsageByDay";

const aDay = (day: string, hours: number): UsageRow => ({
  day,
  allocated_s: hours * 3600,
  guaranteed_s: hours * 1800,
  borrowed_s: hours * 1800,
  used_s: hours * 900,
  idle_s: hours * 2700,
  unknown_s: 0,
  utilization: 25,
});

test("the plot says in a sentence what it draws, and stacks the parts of each day", async () => {
  const rows = [aDay("2026-11-01", 10), aDay("2026-11-03", 40)];
  const { container } = renderPage(
    <UsageByDay rows={rows} since="2026-11-01" until="2026-11-04" plot="use" />,
  );
  expect(await screen.findByRole("img")).toHaveAccessibleName(
    "GPU-hours by day from 1 Nov to 4 Nov: 50 in all, most on 3 Nov with 40.",
  );
  const bars = [...container.querySelectorAll("rect[data-part]")];
  expect(bars.map((bar) => bar.getAttribute("data-part"))).toEqual([
    ...["used", "idle", "unknown"],
    ...["used", "idle", "unknown"],
  ]);
  const heights = bars.map((bar) => Number(bar.getAttribute("height")));
  expect(heights[1]).toBeCloseTo(3 * (heights[0] ?? 0));
  expect(heights[3]).toBeCloseTo(4 * (heights[0] ?? 0));
});

test("a span without usage is drawn too", async () => {
  renderPage(<UsageByDay rows={[]} since="2026-11-01" until="2026-11-04" plot="class" />);
  expect(await screen.findByRole("img")).toHaveAccessibleName(
    "GPU-hours by day from 1 Nov to 4 Nov: none.",
  );
});
