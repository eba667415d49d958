import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aDiagnosis, aWholeJob } from "@/test/rows";
import { serve } from "@/test/server";
import { AttemptsTab } from "./AttemptsTab";

const job = aWholeJob({ attempt: 2 });
const ended = {
  index: 1,
  outcome: "FAILED",
  retry: "counted",
  placed_at: "2026-01-01T10:00:02Z",
  started_at: "2026-01-01T10:00:05Z",
  finished_at: "2026-01-01T10:03:05Z",
  reason: null,
  diagnosis: aDiagnosis(),
};
const present = { ...ended, index: 2, outcome: "", retry: "", finished_at: null, diagnosis: null };

test("each attempt shows how it ended and why another followed", async () => {
  const results = [present, ended];
  serve({ [`GET /jobs/${job.id}/attempts`]: { results, next: null, previous: null } });
  renderPage(<AttemptsTab job={job} />);
  expect(await screen.findByRole("heading", { name: "Attempt 2" })).toBeVisible();
  expect(screen.getByText("3m 00s", { exact: false })).toBeVisible();
  expect(screen.getByText("GPU out of memory", { exact: true })).toBeVisible();
  expect(screen.getByText("Tried again; that counts against jobRetryCount.")).toBeVisible();
});

test("a job that was never placed has none", async () => {
  serve({ [`GET /jobs/${job.id}/attempts`]: { results: [], next: null, previous: null } });
  renderPage(<AttemptsTab job={job} />);
  expect(await screen.findByText("No attempt yet")).toBeVisible();
});
