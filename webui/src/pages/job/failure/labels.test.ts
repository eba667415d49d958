import { describe, expect, test } from "vitest";
import { aDiagnosis, aWholeJob } from "@/test/rows";
import { evidenceSearch, isLatestState, retryText, diagnosisTitle } from "./labels";

const now = Date.parse("2026-01-01T10:00:00Z");
const failed = aWholeJob({ state: "FAILED" });
const waiting = aWholeJob({
  state: "WAITING",
  placed_at: null,
  retries_used: 1,
  retry_at: "2026-01-01T10:00:12Z",
});

describe("what becomes of a failed job", () => {
  test.each([
    [failed, { reaction: "NEVER_RETRY" }, "it would fail in the same way"],
    [failed, { reaction: "RETRY_TO_MAX" }, "its job file allows no retries"],
    [{ ...failed, retries_used: 2 }, { reaction: "RETRY_TO_MAX" }, "2 retries used up"],
    [{ ...failed, free_retries: 50 }, { reaction: "ALWAYS_RETRY" }, "after 50 retries"],
    [waiting, { reaction: "RETRY_TO_MAX" }, "again in 12s. 1 retry of its jobRetryCount used."],
    [
      waiting,
      { reaction: "ALWAYS_RETRY", blame: "node" },
      "in 12s, elsewhere. This is not counted",
    ],
    [
      { ...waiting, retry_at: null },
      { reaction: "ALWAYS_RETRY" },
      "as soon as its resources are free",
    ],
    [aWholeJob({ attempt: 2 }), {}, "attempt 2 is on its way"],
  ])("case %#", (job, diagnosis, words) => {
    expect(retryText(job, aDiagnosis(diagnosis), now)).toContain(words);
  });
});

test("a failure is news until the job is placed again", () => {
  expect(isLatestState(failed)).toBe(true);
  expect(isLatestState(waiting)).toBe(true);
  expect(isLatestState(aWholeJob({ state: "WAITING" }))).toBe(false);
  expect(isLatestState(aWholeJob({ state: "SUCCEEDED" }))).toBe(false);
});

test("a failure without a signature says so", () => {
  const unknown = aDiagnosis({ category: "No signature", exit_code: null });
  expect(diagnosisTitle(unknown)).toMatch(/no rule knows/);
  expect(diagnosisTitle({ ...unknown, exit_code: 3 })).toBe("Exited with code 3");
});

describe("the way to the evidence", () => {
  const search = (source: "log" | "facts", text: string) =>
    evidenceSearch(aDiagnosis({ evidence: { source, text, log: "", line: 3 } }));
  test("is the text of the line", () => expect(search("log", " OOM ")).toBe("OOM"));
  test("leaves out what was not readable", () => {
    expect(search("log", "a\ufffdCUDA out of memory")).toBe("CUDA out of memory");
  });
  test("is none for facts", () => expect(search("facts", "exit_code = 137")).toBeUndefined());
});
