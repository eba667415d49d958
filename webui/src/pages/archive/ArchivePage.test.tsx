import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPages } from "@/test/render";
import { refusal, serve } from "@/test/server";
import { ArchivedJobPage } from "./ArchivedJobPage";
import { ArchivePage } from "./ArchivePage";

const AT = "2026-01-01T10:00:00Z";
const summary = {
  id: "j1",
  name: "train",
  owner: "alice",
  virtual_cluster: "vision",
  state: "FAILED",
  priority_class: "prod",
  gpus: 8,
  tasks: 2,
  submitted_at: AT,
  started_at: AT,
  finished_at: "2026-01-01T12:00:00Z",
  archived_at: "2026-06-01T12:00:00Z",
};
const attempt = {
  index: 1,
  outcome: "FAILED",
  retry: "",
  placed_at: AT,
  started_at: AT,
  finished_at: "2026-01-01T12:00:00Z",
  nodes: ["node-a"],
  nodes_total: 3,
  reason: { code: "task_failed", message: "Task worker-0 failed." },
  diagnosis_code: 137,
  diagnosis_name: "HostOutOfMemory",
};
const event = { at: AT, kind: "job.finished", message: "It ended.", actor: "", count: 1 };
const record = {
  ...summary,
  spec_text: "name: train",
  tags: ["night"],
  task_roles: [],
  attempts: [attempt],
  exit_reason: { code: "task_failed", message: "No retry was left." },
  events: [event],
  use: { gpu_hours: 16 },
  shortened: ["events"],
};
const PAGES = { "/archive": ArchivePage, "/archive/$id": ArchivedJobPage };

function draw(address: string, results: object[] = [summary]) {
  serve({
    "GET /archived-jobs": { results, next: null, previous: null },
    "GET /archived-jobs/j1": record,
  });
  renderPages(PAGES, address);
}

test("a job of the list leads to its record", async () => {
  draw("/archive");
  const link = await screen.findByRole("link", { name: "train" });
  expect(link).toHaveAttribute("href", "/archive/j1");
  expect(screen.getByText("Failed")).toBeVisible();
});

test("an empty archive says how jobs come there", async () => {
  draw("/archive", []);
  expect(await screen.findByText("Nothing is archived")).toBeVisible();
});

test("a record shows why the job ended, where it ran and what it used", async () => {
  draw("/archive/j1");
  expect(await screen.findByText("No retry was left.")).toBeVisible();
  expect(screen.getByText("node-a and 2 more")).toBeVisible();
  expect(screen.getByText("HostOutOfMemory: Task worker-0 failed.")).toBeVisible();
  expect(screen.getByText("16.0 GPU-hours")).toBeVisible();
  expect(screen.getByText("Only the first of these are kept: events.")).toBeVisible();
});

test("an address with the cursor of a page that is gone leads to the first page", async () => {
  const read = (request: Request) =>
    new URL(request.url).searchParams.has("cursor")
      ? refusal(404, "not_found", "Invalid cursor")
      : { results: [summary], next: null, previous: null };
  serve({ "GET /archived-jobs": read });
  renderPages(PAGES, "/archive?cursor=old");
  expect(await screen.findByRole("alert")).toHaveTextContent("There is no such page of the list");
  await userEvent.click(screen.getByRole("button", { name: "Go to the first page" }));
  expect(await screen.findByRole("link", { name: "train" })).toBeVisible();
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a page that has become empty leads to the first one, and is not said to be all", async () => {
  const read = (request: Request) => ({
    results: new URL(request.url).searchParams.has("cursor") ? [] : [summary],
    next: null,
    previous: null,
  });
  serve({ "GET /archived-jobs": read });
  renderPages(PAGES, "/archive?cursor=old");
  await userEvent.click(await screen.findByRole("button", { name: "Go to the first page" }));
  expect(await screen.findByRole("link", { name: "train" })).toBeVisible();
});
