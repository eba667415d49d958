import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aWholeJob } from "@/test/rows";
import { serve } from "@/test/server";
import { EventsTab } from "./EventsTab";

const job = aWholeJob();
const event = {
  id: 1,
  at: "2026-01-01T10:00:00Z",
  kind: "job.preempted",
  actor: "",
  count: 1,
  first_at: null as string | null,
};

function draw(data: object, more: Partial<typeof event> = {}) {
  const message = "Preempted by a job of nlp, which owns the cells.";
  const results = [{ ...event, message, data, ...more }];
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
  expect(screen.queryByRole("link", { name: /^open/ })).toBeNull();
});

test("finding U30: folded events show how many they are, and the first and last of them", async () => {
  draw({}, { count: 1200, first_at: "2026-01-01T09:00:00Z" });
  expect(await screen.findByText(/^×1,200, first .*, last \d\d:00:00$/)).toBeVisible();
});

test("a single event shows no count", async () => {
  draw({});
  expect(await screen.findByText(/Preempted by a job of nlp/)).not.toHaveTextContent("×");
});
