import { screen } from "@testing-library/react";
import { act } from "react";
import { afterEach, expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { aWholeJob } from "@/test/rows";
import { refusal, serve } from "@/test/server";
import { CostSection, UsageSection } from "./UsageSection";

const job = aWholeJob({ state: "SUCCEEDED" });
const USE = {
  ...{ gpu_hours: 1.5, gpu_utilization: 40, gpu_memory_peak_mb: 900, cpu_percent: 12 },
  ...{ memory_peak_mb: 300, advice: [], asked: { gpus: 1, cpus: 1, memory_mb: 1024 } },
};

afterEach(() => vi.useRealTimers());

const pass = (seconds: number) => act(() => vi.advanceTimersByTimeAsync(1000 * seconds));

test("the use of an ended job shows as soon as it is counted, and is asked for no more", async () => {
  vi.useFakeTimers();
  let counted = false;
  const requests = serve({ [`GET /jobs/${job.id}/use`]: () => (counted ? USE : undefined) });
  renderPage(<UsageSection job={job} />);
  await pass(16);
  expect(requests).toHaveLength(3);
  counted = true;
  await pass(20);
  expect(screen.getByText("1.5")).toBeVisible();
  await pass(3600);
  expect(requests).toHaveLength(4);
});

test("a use that is never counted is asked for less and less often", async () => {
  vi.useFakeTimers();
  const requests = serve({});
  renderPage(<UsageSection job={job} />);
  await pass(3600);
  const first = requests.length;
  expect(first).toBeLessThan(20);
  await pass(3600);
  expect(requests.length - first).toBe(12); // each 5 minutes
});

const SUMS = {
  ...{ allocated_s: 9000, guaranteed_s: 7200, borrowed_s: 1800 },
  ...{ used_s: 4500, idle_s: 4500, unknown_s: 0, utilization: 50 },
};
const DAY = "2026-11-22";

test("a running job says what it cost so far, and counts on; an ended one what it cost", async () => {
  vi.useFakeTimers();
  const running = aWholeJob({ state: "RUNNING", gpus: 2, submitted_at: `${DAY}T08:00:00Z` });
  const total = { ...SUMS };
  const answer = () => ({ results: [], next: null, previous: null, total });
  const requests = serve({ "GET /usage": answer });
  const { unmount } = renderPage(<CostSection job={running} />);
  await pass(2);
  expect(screen.getByRole("region", { name: "Cost so far" })).toHaveTextContent("2.5 GPU-h");
  total.allocated_s = 10_800;
  await pass(61);
  expect(screen.getByRole("region", { name: "Cost so far" })).toHaveTextContent("3 GPU-h");
  const asked = new URL(requests[0]?.url ?? "").searchParams;
  expect([asked.get("job"), asked.get("since")]).toEqual([running.id, DAY]);
  unmount();

  requests.length = 0;
  renderPage(<CostSection job={{ ...running, state: "SUCCEEDED" }} />);
  await pass(2);
  expect(screen.getByRole("region", { name: "Cost" })).toBeVisible();
  await pass(300);
  expect(requests).toHaveLength(1);
});

test("a job without GPUs has no cost, and it is not asked for", async () => {
  vi.useFakeTimers();
  const requests = serve({});
  renderPage(<CostSection job={aWholeJob({ state: "RUNNING", gpus: 0 })} />);
  await pass(120);
  expect(requests).toHaveLength(0);
});

test("a use that could not be read is said; one that is not counted yet is not", async () => {
  const path = `GET /jobs/${job.id}/use`;
  const requests = serve({});
  const first = renderPage(<UsageSection job={job} />);
  await vi.waitFor(() => expect(requests.length).toBeGreaterThan(0));
  expect(screen.queryByRole("alert")).toBeNull();
  first.unmount();
  serve({ [path]: () => refusal(503, "database_away", "The database is away.") });
  renderPage(<UsageSection job={job} />);
  expect(await screen.findByRole("alert")).toHaveTextContent(
    "The use of the job could not be read: The database is away.",
  );
});
