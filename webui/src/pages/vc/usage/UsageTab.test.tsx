import { screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { fireEvent } from "@testing-library/react";
import type { Budget, Report, Sums } from "@/api/usage";
import type { VirtualCluster } from "@/api/types";
import type { VcFairness } from "@/api/virtualClusters";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { UsageTab } from "./UsageTab";

const sums = (hours: number, utilization: number): Sums => ({
  allocated_s: hours * 3600,
  guaranteed_s: hours * 3600,
  borrowed_s: 0,
  used_s: hours * 36 * utilization,
  idle_s: hours * 36 * (100 - utilization),
  unknown_s: 0,
  utilization,
});

const BUDGET: Budget = {
  gpu_hours: 1000,
  month: "2026-11",
  until: "2026-12-01",
  used_s: 900 * 3600,
  percent: 90,
  state: "warning",
  message: "90 % of the GPU-hour budget of vision for November is used.",
};

const REPORT: Report = {
  vc: "vision",
  month: "2026-11",
  since: "2026-11-01",
  until: "2026-11-22",
  total: sums(900, 40),
  owned_s: 3_600_000,
  lent_s: 36_000,
  quota_share: 90,
  users: [
    { user: "ann", jobs: 3, gpus: 8, ...sums(600, 11) },
    { user: "bob", jobs: 1, gpus: 1, ...sums(300, 95) },
  ],
  idle_jobs: [{ job: { id: "j1", name: "big" }, user: "ann", gpus: 8, ...sums(500, 11) }],
  waiting: { jobs: 4, p50_s: 90, p95_s: 7200 },
  budget: BUDGET,
};

const vc = (may_manage: boolean) => ({ name: "vision", may_manage }) as VirtualCluster;
const usageOf = (by: string) => ({
  by: [by],
  since: "2026-11-01",
  until: "2026-11-22",
  total: sums(10, 50),
  results: [],
  next: null,
  previous: null,
});

const FAIRNESS: VcFairness = {
  days: 7,
  gpus: 8,
  jain_index: 0.6,
  total: { jobs: 3, active: 1, unknown: 1, rho_mean: 1.125, rho_max: 2.5, unfair_share: 1 / 3 },
  results: [
    {
      user: "bob",
      ...{ jobs: 1, active: 1, unknown: 0, rho_mean: 2.5, rho_max: 2.5, unfair_share: 1 },
      worst_job: { id: "j2", name: "late" },
    },
    {
      user: "cid",
      ...{ jobs: 0, active: 0, unknown: 1, rho_mean: null, rho_max: null, unfair_share: null },
      worst_job: null,
    },
  ],
  next: null,
  previous: null,
};

const ANSWERS = {
  "GET /virtual-clusters/vision/fairness": FAIRNESS,
  "GET /virtual-clusters/vision/budget": BUDGET,
  "GET /virtual-clusters/vision/report": REPORT,
  "GET /usage": usageOf("day"),
};

test("a VC admin reads what each user asked for and used of it", async () => {
  serve(ANSWERS);
  renderPage(<UsageTab vc={vc(true)} admin={false} month="2026-11" />);
  const users = await screen.findByRole("table", { name: "Efficiency of each user" });
  expect(within(users).getByText("asked 8 GPUs, used 11%")).toBeInTheDocument();
  expect(within(users).getByText("asked 1 GPU, used 95%")).toBeInTheDocument();
  expect(screen.getByText("1m 30s for half of 4 jobs, 2h 00m for 95%")).toBeInTheDocument();
  expect(screen.getByRole("link", { name: "CSV" })).toHaveAttribute(
    "href",
    "/api/v1/virtual-clusters/vision/report/export?month=2026-11",
  );
  expect(screen.getByRole("status")).toHaveTextContent("90 % of the GPU-hour budget");
  expect(screen.queryByRole("button", { name: "Set" })).toBeNull();
});

test("a member reads the budget and the own usage, not the report", async () => {
  const requests = serve(ANSWERS);
  renderPage(<UsageTab vc={vc(false)} admin={false} month={undefined} />);
  await screen.findByText("Your usage in the last 30 days");
  expect(await screen.findByRole("meter")).toHaveAttribute("aria-valuetext", "900 of 1000");
  expect(requests.some((request) => request.url.includes("/report"))).toBe(false);
});

test("a platform admin changes and removes the budget", async () => {
  const sent: unknown[] = [];
  const put = vi.fn(async (request: Request) => {
    sent.push(await request.json());
    return { ...BUDGET, gpu_hours: 2000, state: "ok", message: "" };
  });
  serve({
    ...ANSWERS,
    "PUT /virtual-clusters/vision/budget": put,
    "DELETE /virtual-clusters/vision/budget": { ...BUDGET, gpu_hours: null, state: "none" },
  });
  renderPage(<UsageTab vc={vc(true)} admin month="2026-11" />);
  const input = await screen.findByLabelText("Guaranteed GPU-hours a month");
  fireEvent.change(input, { target: { value: "2000" } });
  fireEvent.click(screen.getByRole("button", { name: "Set" }));
  await screen.findByText(/of 2,000 guaranteed GPU-hours/);
  expect(sent).toEqual([{ gpu_hours: 2000 }]);
  fireEvent.click(screen.getByRole("button", { name: "Remove" }));
  await screen.findByText("It may use any number of guaranteed GPU-hours.");
});

test("each user reads by what factor jobs took longer than on an equal share", async () => {
  serve(ANSWERS);
  renderPage(<UsageTab vc={vc(false)} admin={false} month="2026-11" />);
  const table = await screen.findByRole("table", { name: "Fairness of each user" });
  expect(within(table).getByRole("link", { name: "late" })).toHaveAttribute("href", "/jobs/j2");
  expect(within(table).getAllByText("no estimate")).toHaveLength(2);
  expect(
    screen.getByText(
      "3 jobs took 1.13 times as long on average as with an equal share of 8 GPUs, the worst one 2.5 times. 33% took more than 1.05 times.",
    ),
  ).toBeInTheDocument();
  expect(screen.getByText("0.60").closest("p")).toHaveTextContent(
    "Jain’s index of the users’ speeds: 0.60. It is 1 where the jobs of all users are slowed alike",
  );
});
