import { describe, expect, test } from "vitest";
import type { RunningJob, WaitingJob } from "@/api/virtualClusters";
import { aJob } from "@/test/rows";
import { barOfRunning, barOfWaiting, layOutBar, isLate, spanOf } from "./bars";
import { barText, startColumn } from "./labels";

const NOW = Date.parse("2026-01-01T12:00:00Z");
const HOUR = 3_600_000;
const iso = (hours: number) => new Date(NOW + hours * HOUR).toISOString();

function running(startedAgo: number, endIn: number | null): RunningJob {
  return {
    job: aJob({ started_at: iso(-startedAgo) }),
    expected_end: endIn === null ? null : iso(endIn),
    opportunistic: false,
    preemptible: true,
  };
}

function waiting(part: Partial<WaitingJob>, duration_s: number | null = null): WaitingJob {
  return {
    position: 1,
    job: { ...aJob({ state: "WAITING", started_at: null }), duration_s },
    needs_words: "",
    reserved: null,
    expected_start: null,
    reason: null,
    ...part,
  };
}

describe("the span of a time line", () => {
  test("holds the last expected end and some space behind it", () => {
    const { from, to } = spanOf([barOfRunning(running(1, 2))], NOW);
    expect(to).toBeGreaterThan(NOW + 2 * HOUR);
    expect(from).toBeLessThan(NOW);
  });
  test("is half an hour ahead at least, when nothing is known", () => {
    const { to } = spanOf([barOfRunning(running(300, null))], NOW);
    expect(to - NOW).toBe(HOUR / 2);
  });
  test("is not drowned by a job that started days ago", () => {
    const { from } = spanOf([barOfRunning(running(300, 1))], NOW);
    expect(NOW - from).toBeLessThan(HOUR);
  });
});

describe("a bar", () => {
  const span = { from: NOW - HOUR, to: NOW + 3 * HOUR };
  test("lies from its start to its expected end", () => {
    const bar = barOfRunning(running(0.5, 1));
    expect(layOutBar(bar, span, 400, NOW)).toEqual({
      x: 50,
      width: 150,
      before: false,
      after: false,
    });
  });
  test("is cut where it began before, and open where its end is not known", () => {
    const bar = barOfRunning(running(9, null));
    expect(layOutBar(bar, span, 400, NOW)).toEqual({ x: 0, width: 400, before: true, after: true });
  });
  test("that should have ended has an open end again", () => {
    const bar = barOfRunning(running(0.9, -0.1));
    expect(isLate(bar, NOW)).toBe(true);
    expect(layOutBar(bar, span, 400, NOW)?.after).toBe(true);
    expect(barText(bar, NOW)).toContain("was expected to end");
  });
  test("of a waiting job is as long as the job says", () => {
    const bar = barOfWaiting(waiting({ expected_start: iso(1) }, 3600));
    expect(layOutBar(bar, span, 400, NOW)).toMatchObject({ x: 200, width: 100, after: false });
    expect(bar.certainty).toBe("expected");
  });
  test("begins where cells are reserved, even if another start is expected", () => {
    const reserved = { start: iso(2), nodes: ["n1"] };
    const bar = barOfWaiting(waiting({ reserved, expected_start: iso(1) }));
    expect([bar.certainty, bar.start]).toEqual(["reserved", NOW + 2 * HOUR]);
  });
  test("is not drawn where no start is known", () => {
    const bar = barOfWaiting(waiting({}));
    expect(layOutBar(bar, span, 400, NOW)).toBeNull();
    expect(barText(bar, NOW)).toBe("start unknown");
  });
});

describe("the start of a waiting job in words", () => {
  test("shows how far off it is", () =>
    expect(startColumn(waiting({ expected_start: iso(2) }), NOW).far).toBe("in 2h 00m"));
  test("a start that is due is now", () =>
    expect(startColumn(waiting({ expected_start: iso(-1) }), NOW).at).toBe("now"));
  test("shows the nodes that are reserved, or how many", () => {
    const at = (nodes: string[]) => waiting({ reserved: { start: iso(1), nodes } });
    expect(startColumn(at(["a", "b"]), NOW).where).toBe("a, b");
    expect(startColumn(at(["a", "b", "c", "d"]), NOW).where).toBe("4 nodes");
  });
});
