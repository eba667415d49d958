import { screen } from "@testing-library/react";
import { act } from "react";
import { afterEach, expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { aWholeJob } from "@/test/rows";
import { serve } from "@/test/server";
import { UsageSection } from "./UsageSection";

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
