import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aJob, aWaitReason } from "@/test/rows";
import { JobNameCell } from "./JobsTable";

const reason = aWaitReason("Needs 16 GPUs, 8 are free.");

test("a waiting job shows in the list why it waits", async () => {
  renderPage(<JobNameCell job={aJob({ state: "WAITING", wait_reason: reason })} />);
  expect(await screen.findByText("Needs 16 GPUs, 8 are free.")).toBeVisible();
});

test("a waiting job whose start is known shows how far off it is", async () => {
  const expected_start = new Date(Date.now() + 25 * 60_000).toISOString();
  renderPage(<JobNameCell job={aJob({ state: "WAITING", wait_reason: reason, expected_start })} />);
  expect(await screen.findByText("starts in about 25 min")).toBeVisible();
});

test("a placed job says that it is being prepared", async () => {
  renderPage(<JobNameCell job={aJob({ state: "WAITING" })} />);
  expect(await screen.findByText(/prepare/)).toBeVisible();
});

test("a running job says nothing more than its name", async () => {
  renderPage(<JobNameCell job={aJob({ wait_reason: reason })} />);
  expect(await screen.findByRole("link", { name: "train" })).toBeVisible();
  expect(screen.queryByText(reason.message)).toBeNull();
});

test("finding U19: a failed job shows its diagnosis before what every failure says", async () => {
  const exit_reason = { ...reason, message: "worker-0 ended with exit code 1; no retry is left." };
  const job = aJob({ state: "FAILED", diagnosis_title: "CUDA out of memory", exit_reason });
  renderPage(<JobNameCell job={job} />);
  expect(await screen.findByText(/^CUDA out of memory\. worker-0 ended/)).toBeVisible();
});
