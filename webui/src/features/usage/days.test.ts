import { expect, test } from "vitest";
import { daysAgo, daysOf, lastMonths, monthName } from "./days";

test("a span has each of its days once, also over the end of a month and summer time", () => {
  expect(daysOf("2026-10-24", "2026-10-26")).toEqual(["2026-10-24", "2026-10-25", "2026-10-26"]);
  expect(daysOf("2026-12-31", "2027-01-01")).toEqual(["2026-12-31", "2027-01-01"]);
  expect(daysOf("2026-11-02", "2026-11-01")).toEqual([]);
});

test("months go back over the turn of the year", () => {
  const newYear = new Date("2027-01-31T23:59:00Z");
  expect(lastMonths(3, newYear)).toEqual(["2027-01", "2026-12", "2026-11"]);
  expect(monthName("2026-11")).toBe("November 2026");
  expect(daysAgo(1, newYear.getTime())).toBe("2027-01-30");
});
