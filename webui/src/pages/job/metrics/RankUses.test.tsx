import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aWholeJob } from "@/test/rows";
import { refusal, serve } from "@/test/server";
import { RankUses } from "./RankUses";

const job = aWholeJob({ tasks: 600 });
const path = `GET /jobs/${job.id}/ranks`;
const RANK = {
  ...{ rank: 0, role: "worker", index: 0, attempt_id: "a", node: "n", state: "RUNNING", gpus: 0 },
  ...{ gpu_utilization: null, gpu_utilization_recent: null, gpu_memory_peak_mb: null },
  ...{ cpu_percent: null, memory_peak_mb: null },
};

function first(request: Request): boolean {
  return new URL(request.url).searchParams.get("first") === "0";
}

test("a later page without placed tasks leads back", async () => {
  serve({
    [path]: (request: Request) => ({ attempt: 1, total: 600, ranks: first(request) ? [RANK] : [] }),
  });
  renderPage(<RankUses job={job} />);
  await userEvent.click(await screen.findByRole("button", { name: "Next" }));
  expect(await screen.findByText("None of these tasks was placed yet.")).toBeVisible();
  await userEvent.click(screen.getByRole("button", { name: "Previous" }));
  expect(await screen.findByRole("link", { name: "worker-0" })).toBeVisible();
});

test("a failure is shown", async () => {
  serve({ [path]: () => refusal(503, "unavailable", "The store is away.") });
  renderPage(<RankUses job={job} />);
  expect(await screen.findByText("The store is away.")).toBeVisible();
});
