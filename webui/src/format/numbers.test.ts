import { expect, test } from "vitest";
import { formatHours, formatPercent } from "./numbers";

test.each([
  [0, "0"],
  [0.0003, "< 0.01"],
  [0.042, "0.04"],
  [2.54, "2.5"],
  [1234.5, "1,235"],
])("%d hours", (value, words) => expect(formatHours(value)).toBe(words));

test.each([
  [4.96, "5%"],
  [97.4, "97%"],
])("%s percent", (value, words) => expect(formatPercent(value)).toBe(words));
