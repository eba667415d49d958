import { describe, expect, test } from "vitest";
import { aRole, aWaitReason, aWholeJob } from "@/test/rows";
import { jobStatusText, waitTime } from "./labels";

const job = aWholeJob;
const role = (states: Record<string, number>) => [aRole({ states })];

const reason = aWaitReason("The reason.");

describe("the sentence over a job", () => {
  test.each([
    [job({ state: "WAITING", wait_reason: reason }), "The reason."],
    [job({ state: "WAITING", placed_at: null }), "The scheduler looks at it in its next round."],
    [job({ tasks: 1, task_roles: role({ RUNNING: 1 }) }), "Its task is running."],
    [job({ tasks: 4, task_roles: role({ RUNNING: 4 }) }), "All 4 tasks are running."],
    [job({ tasks: 4, task_roles: role({ RUNNING: 1, SUCCEEDED: 3 }) }), "1 of 4 tasks is running."],
    [job({ state: "FAILED", exit_reason: reason }), "The reason."],
  ])("case %#", (value, words) => expect(jobStatusText(value)).toBe(words));
});

test("a job that was never placed waited until its end", () => {
  const never = job({ attempt: 0, placed_at: null, finished_at: "2026-01-01T10:05:00Z" });
  expect(waitTime(never).end).toBe("2026-01-01T10:05:00Z");
});

test("finding U8: a job that ran in between is not said to have waited all the time", () => {
  expect(waitTime(job({ attempt: 2, placed_at: "2026-01-01T11:00:00Z" })).again).toBe(true);
  expect(waitTime(job({ attempt: 1, placed_at: null })).again).toBe(true);
  expect(waitTime(job({ attempt: 1, placed_at: "2026-01-01T10:00:05Z" })).again).toBe(false);
});
