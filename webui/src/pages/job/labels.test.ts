import { describe, expect, test } from "vitest";
import { aRole, aTask, aWaitReason, aWholeJob, anAttempt } from "@/test/rows";
import { jobPullText, jobStatusText, waitTime } from "./labels";

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

describe("the sentence on the pulls of a job", () => {
  const GB = 1024 ** 3;
  const pulling = (node: string, pull_percent: number, pull_total_bytes: number | null) =>
    aTask({
      state: "PREPARING",
      attempt: anAttempt({
        ...{ node, phase: "pulling", pull_percent, pull_total_bytes },
        pull_bytes: Math.round(2.1 * GB),
      }),
    });

  test("says how far one is, and of several the slowest", () => {
    const one = pulling("gpu-1", 43, Math.round(4.9 * GB));
    expect(jobPullText([one, one])).toBe("Pulling image, 43 %, 2.1 of 4.9 GB.");
    const slow = pulling("gpu-2", 7, null);
    expect(jobPullText([one, slow])).toBe(
      "Pulling image on 2 nodes; the slowest is gpu-2: 7 %, 2.1 GB.",
    );
  });

  test("says nothing when none is pulled", () => {
    expect(jobPullText([aTask({ state: "RUNNING" })])).toBe(null);
  });
});
