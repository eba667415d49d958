import { describe, expect, test } from "vitest";
import type { JobSummary } from "@/api/types";
import { aJob } from "@/test/rows";
import { badgesOf } from "./JobBadges";

const words = (part: Partial<JobSummary>) => badgesOf(aJob(part)).map((badge) => badge.label);
const downgraded = { code: "preempted_lazily", message: "train-2 took its cells.", details: {} };

describe("badges", () => {
  test.each([
    [{}, []],
    [{ priority: -1 }, ["opportunistic"]],
    [{ downgraded }, ["runs as opportunistic"]],
    [{ downgraded, preempting: true }, ["being preempted"]],
    [{ preemptions: 1 }, ["preempted once"]],
    [{ priority: -1, preemptions: 3 }, ["opportunistic", "preempted 3 times"]],
    [{ incremental: true, unplaced: 2 }, ["waiting for 2 tasks"]],
    [{ incremental: true, unplaced: 2, placed_at: null }, []],
  ])("case %#", (part, expected) => expect(words(part)).toEqual(expected));

  test("a downgraded job shows why", () =>
    expect(badgesOf(aJob({ downgraded }))[0]?.description).toBe("train-2 took its cells."));
});
