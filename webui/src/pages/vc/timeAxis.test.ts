import { expect, test } from "vitest";
import { formatDistance, formatMoment, ticks, toX } from "./timeAxis";

const HOUR = 3_600_000;
const noon = new Date(2026, 0, 5, 12, 10).getTime();

test("times outside of the span stay at the edge", () => {
  const span = { from: 100, to: 200 };
  expect([50, 150, 999].map((time) => toX(time, span, 80))).toEqual([0, 40, 80]);
});

test("ticks are full hours of the reader's zone, and no more than fit", () => {
  const found = ticks({ from: noon, to: noon + 5 * HOUR }, 5);
  expect(found).toHaveLength(5);
  for (const time of found) expect(new Date(time).getMinutes()).toBe(0);
});

test("over days the ticks are midnights", () => {
  for (const time of ticks({ from: noon, to: noon + 6 * 24 * HOUR }, 7)) {
    expect(new Date(time).getHours()).toBe(0);
  }
});

test("moments are as short as they can be", () => {
  expect(formatMoment(noon, noon)).toBe("12:10");
  expect(formatMoment(noon + 24 * HOUR, noon)).toBe("Tue 12:10");
  expect(formatMoment(noon + 240 * HOUR, noon)).toBe("15 Jan 12:10");
});

test("distances look ahead and back", () => {
  expect(formatDistance(noon + 2 * HOUR, noon)).toBe("in 2h 00m");
  expect(formatDistance(noon - 60_000, noon)).toBe("1m 00s ago");
  expect(formatDistance(noon + 2000, noon)).toBe("now");
});
