import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aWholeJob } from "@/test/rows";
import { serve } from "@/test/server";
import { EventsTab } from "./EventsTab";

const job = aWholeJob();
const event = { id: 1, at: "2026-01-01T10:00:00Z", kind: "job.preempted", actor: "" };

function draw(data: object) {
  const message = "Preempted by a job of nlp, which owns the cells.";
  const results = [{ ...event, message, data }];
  serve({ [`GET /jobs/${job.id}/events`]: { results, next: null, previous: null } });
  renderPage(<EventsTab job={job} />);
}

test("a preemption leads to the job that took the place", async () => {
  draw({ by: "j2", name: "train-2" });
  const link = await screen.findByRole("link", { name: "open train-2" });
  expect(link).toHaveAttribute("href", "/jobs/j2");
});

test("a preemptor that one may not see has no link", async () => {
  draw({ virtual_cluster: "nlp" });
  expect(await screen.findByText(/Preempted by a job of nlp/)).toBeVisible();
  expect(screen.queryByRole("link")).toBeNull();
});
