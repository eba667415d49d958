import { expect, test } from "vitest";
import type { JobAttempt } from "@/api/types";
import { attemptMarks } from "./attemptMarks";

const attempt = (index: number, from: string, to: string | null, outcome: string | null) =>
  ({
    ...{ index, outcome },
    ...{ started_at: `2026-11-05T${from}:00Z`, finished_at: to && `2026-11-05T${to}:00Z` },
  }) as JobAttempt;

test("ends of attempts and starts of further ones are marked, but not the start and end of all", () => {
  const marks = attemptMarks([
    attempt(3, "12:00", null, null),
    attempt(2, "11:00", "11:30", "FAILED"),
    attempt(1, "10:00", "10:30", "PREEMPTED"),
  ]);
  expect(
    marks.map(({ at, label }) => [new Date(at * 1000).toISOString().slice(11, 16), label]),
  ).toEqual([
    ["10:30", "preempted"],
    ["11:00", "#2"],
    ["11:30", "failed"],
    ["12:00", "#3"],
  ]);
});
