import { describe, expect, test } from "vitest";
import { exitLabel, shortModel, shortUuid } from "./names";
import { formatBytes, pluralize } from "./numbers";
import {
  formatExpectedTime,
  formatRelativeTime,
  formatDuration,
  formatTimeUntil,
  elapsedSeconds,
} from "./time";

describe("duration", () => {
  test.each([
    [-3, "0s"],
    [0.26, "0.2s"],
    [4, "4s"],
    [59.9, "59s"],
    [187, "3m 07s"],
    [3600 * 5 + 720, "5h 12m"],
    [86_400 * 2 + 3 * 3600, "2d 3h"],
  ])("%d seconds are %s", (seconds, words) => expect(formatDuration(seconds)).toBe(words));
});

describe("ago", () => {
  const at = "2026-01-01T00:00:00Z";
  const later = (seconds: number) => Date.parse(at) + seconds * 1000;
  test.each([
    [0, "just now"],
    [-20, "just now"],
    [12, "12s ago"],
    [600, "10m ago"],
    [7200, "2h ago"],
    [86_400 * 3, "3d ago"],
  ])("after %d seconds: %s", (seconds, words) =>
    expect(formatRelativeTime(at, later(seconds))).toBe(words),
  );

  test("a date of another year has its year", () => {
    const then = "2025-10-23T12:00:00Z";
    expect(formatRelativeTime(then, Date.parse("2025-11-23T12:00:00Z"))).not.toContain("2025");
    expect(formatRelativeTime(then, Date.parse("2026-11-23T12:00:00Z"))).toContain("2025");
  });
});

describe("span", () => {
  test("has no length before the start", () => expect(elapsedSeconds(null, null, 0)).toBeNull());
  test("runs to now while there is no end", () =>
    expect(elapsedSeconds("2026-01-01T00:00:00Z", null, Date.parse("2026-01-01T00:01:00Z"))).toBe(
      60,
    ));
  test("ends at the end", () =>
    expect(elapsedSeconds("2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z", Infinity)).toBe(5));
});

describe("how far off", () => {
  test.each([
    [-60, "any moment now"],
    [30, "in less than a minute"],
    [100, "in about 2 min"],
    [25 * 60, "in about 25 min"],
    [2 * 3600 + 600, "in about 2 h 10 min"],
    [26 * 3600 + 600, "in about 26 h"],
    [5 * 86_400, "in about 5 days"],
  ])("%d seconds are %s", (seconds, words) =>
    expect(formatTimeUntil(seconds * 1000, 0)).toBe(words),
  );
});

test("the time of another day comes with the day", () => {
  const noon = new Date(2026, 0, 5, 12).getTime();
  expect(formatExpectedTime(new Date(2026, 0, 5, 14, 20).getTime(), noon)).toBe("14:20");
  expect(formatExpectedTime(new Date(2026, 0, 7, 9, 5).getTime(), noon)).toBe("Wed 09:05");
});

describe("bytes", () => {
  test.each([
    [512, "512 B"],
    [1536, "1.5 KB"],
    [1024 ** 2, "1 MB"],
    [80 * 1024 ** 3, "80 GB"],
  ])("%d is %s", (value, words) => expect(formatBytes(value)).toBe(words));
});

test("counts are said in words", () => {
  expect(pluralize(1, "task")).toBe("1 task");
  expect(pluralize(2000, "task")).toBe("2,000 tasks");
});

describe("how a process ended", () => {
  const end = { exit_code: null, exit_signal: null, oom_killed: false };
  test.each([
    [end, ""],
    [{ ...end, exit_code: 0 }, "0"],
    [{ ...end, exit_code: 1 }, "1"],
    [{ ...end, exit_code: 137 }, "SIGKILL (137)"],
    [{ ...end, exit_signal: 15 }, "SIGTERM (143)"],
    [{ ...end, exit_code: 137, oom_killed: true }, "out of memory"],
    [{ ...end, exit_code: 250 }, "250"],
  ])("%j is shown as %j", (value, words) => expect(exitLabel(value)).toBe(words));
});

test("names are short where space is short", () => {
  expect(shortModel("NVIDIA A100-SXM4-80GB")).toBe("A100-SXM4-80GB");
  expect(shortUuid("GPU-5f2e9b1c-0000")).toBe("5f2e9b1c");
});
