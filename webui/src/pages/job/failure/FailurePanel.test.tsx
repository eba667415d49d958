import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aDiagnosis, aWholeJob } from "@/test/rows";
import { FailurePanel } from "./FailurePanel";

const diagnosis = aDiagnosis({ blame: "node", reaction: "ALWAYS_RETRY" });
const failed = aWholeJob({ state: "FAILED", diagnosis: aDiagnosis() });
const draw = (job: typeof failed, brief = false) =>
  renderPage(<FailurePanel job={job} brief={brief} />);

test("while the logs are read, that is all that is shown", async () => {
  draw({ ...failed, state: "RUNNING", diagnosing: true });
  expect(await screen.findByText("Reading the logs…")).toBeVisible();
  expect(screen.queryByRole("region")).toBeNull();
});

test("a failed job says what to do, and leads to the line of that rank's log", async () => {
  draw(failed);
  expect(await screen.findByRole("heading", { name: "GPU out of memory" })).toBeVisible();
  expect(screen.getByText("Make the batch or the model smaller.")).toBeVisible();
  const link = screen.getByRole("link", { name: "Show in the log" });
  expect(link).toHaveAttribute("href", expect.stringContaining("rank=1"));
  expect(link).toHaveAttribute("href", expect.stringContaining("attempt=1"));
  expect(link).toHaveAttribute("href", expect.stringContaining("find=CUDA"));
});

test("a failure without an explanation leads to the end of that log", async () => {
  const evidence = { source: "none" as const, text: "", log: "", line: 0 };
  draw({ ...failed, diagnosis: aDiagnosis({ category: "No signature", exit_code: 3, evidence }) });
  expect(await screen.findByRole("heading", { name: "Exited with code 3" })).toBeVisible();
  const link = screen.getByRole("link", { name: "Show its end" });
  expect(link).toHaveAttribute("href", expect.stringMatching(/tab=logs.*rank=1.*attempt=1/));
});

test("a log that was deleted is not led to", async () => {
  draw({ ...failed, logs_deleted_at: "2026-02-01T10:00:00Z" });
  expect(await screen.findByText("CUDA out of memory")).toBeVisible();
  expect(screen.queryByRole("link", { name: "Show in the log" })).toBeNull();
});

test("a job that is tried again says when, where not, and which node is to blame", async () => {
  const retry_at = new Date(Date.now() + 12_500).toISOString();
  draw({ ...failed, state: "WAITING", placed_at: null, retry_at, diagnosis });
  expect(await screen.findByText(/tried again in 1[123]s, elsewhere/)).toBeVisible();
  expect(screen.getByText(/worker-1 on hive-02, which is to blame/)).toBeVisible();
});

test("the reason of the end is left out where it says the same", async () => {
  const message = "worker-1 failed: GPU out of memory.";
  draw({ ...failed, exit_reason: { code: "x", message, details: {} } });
  expect(await screen.findByRole("region", { name: "Why it failed" })).toBeVisible();
  expect(screen.queryByText(message)).toBeNull();
});

test("where space is short, a line leads to the whole story", async () => {
  draw(failed, true);
  expect(await screen.findByRole("link", { name: "Show why" })).toBeVisible();
  expect(screen.queryByRole("region")).toBeNull();
});

test("a job that runs again reports its failure in passing, one that ended well does not", async () => {
  const { unmount } = draw({ ...failed, state: "RUNNING" });
  expect(await screen.findByText(/An earlier attempt failed/)).toBeVisible();
  unmount();
  draw({ ...failed, state: "SUCCEEDED" });
  expect(screen.queryByText(/failed/)).toBeNull();
});
