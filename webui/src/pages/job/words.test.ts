import { describe, expect, test } from "vitest";
import { aRole, aWholeJob } from "@/test/rows";
import { sentence, waited } from "./words";

const job = aWholeJob;
const role = (states: Record<string, number>) => [aRole({ states })];

const reason = { code: "x", message: "The reason.", details: {} };

describe("the sentence over a job", () => {
  test.each([
    [job({ state: "WAITING", wait_reason: reason }), "The reason."],
    [job({ state: "WAITING", placed_at: null }), "The scheduler looks at it in its next round."],
    [job({ tasks: 1, task_roles: role({ RUNNING: 1 }) }), "Its task runs."],
    [job({ tasks: 4, task_roles: role({ RUNNING: 4 }) }), "All 4 tasks run."],
    [job({ tasks: 4, task_roles: role({ RUNNING: 1, SUCCEEDED: 3 }) }), "1 of 4 tasks run."],
    [job({ state: "FAILED", exit_reason: reason }), "The reason."],
  ])("case %#", (value, words) => expect(sentence(value)).toBe(words));
});

test("a job that was never placed waited until its end", () => {
  const never = job({ placed_at: null, finished_at: "2026-01-01T10:05:00Z" });
  expect(waited(never).end).toBe("2026-01-01T10:05:00Z");
});
