import { act, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import type { VcQueue } from "@/api/virtualClusters";
import { renderPage } from "@/test/render";
import { aJob, aWaitReason } from "@/test/rows";
import { refusal, serve } from "@/test/server";
import { QueueTab } from "./QueueTab";

vi.mock("@/live/live", () => ({ useLiveQueries: () => undefined, usePoll: () => false }));

const soon = new Date(Date.now() + 3_600_000).toISOString();
const running = {
  job: aJob({ id: "r", name: "train" }),
  expected_end: soon,
  opportunistic: false,
  preemptible: true,
};
const waiting = {
  position: 1,
  job: aJob({ id: "w", name: "next", state: "WAITING", started_at: null }),
  needs_words: "2 nodes of 8 A100",
  reserved: { start: soon, nodes: ["n1", "n2"] },
  expected_start: soon,
  reason: aWaitReason("Needs 2 nodes of 8 A100; 1 is free."),
};

function show(page: Omit<VcQueue, "running_total" | "waiting_total">, waitingTotal?: number) {
  const queue: VcQueue = {
    ...page,
    running_total: page.running.length,
    waiting_total: waitingTotal ?? page.waiting.length,
  };
  serve({ "GET /virtual-clusters/vision/queue": queue });
  renderPage(<QueueTab name="vision" />);
}

test("running and waiting jobs share the time line, each a link to its page", async () => {
  show({ running: [running], waiting: [waiting], next: null });
  const line = await screen.findByRole("region", { name: "Timeline" });
  expect(within(line).getByRole("link", { name: "train" })).toHaveAttribute("href", "/jobs/r");
  expect(within(line).getByText(/^running since .* until about/)).toBeInTheDocument();
  expect(within(line).getByText(/^reserved to start at/)).toBeInTheDocument();
});

test("finding U23: a queue of many pages shows how many wait in all", async () => {
  const next = "/api/v1/virtual-clusters/vision/queue?cursor=1";
  show({ running: [running], waiting: [waiting], next }, 2963);
  expect(await screen.findByText("1 job runs, 2,963 wait")).toBeVisible();
});

test("a waiting job shows its place, its needs, why it waits, when and where it starts", async () => {
  show({ running: [], waiting: [waiting], next: null });
  const row = await screen.findByRole("row", { name: /next/ });
  for (const words of ["1", "2 nodes of 8 A100", waiting.reason.message, "on n1, n2"]) {
    expect(within(row).getByText(words)).toBeVisible();
  }
});

test("when no job waits, that is said", async () => {
  show({ running: [running], waiting: [], next: null });
  expect(await screen.findByText(/No jobs are waiting/)).toBeVisible();
});

test("an empty virtual cluster leads to a new job", async () => {
  show({ running: [], waiting: [], next: null });
  expect(await screen.findByRole("link", { name: "New job" })).toHaveAttribute("href", "/jobs/new");
});

const broken = () => refusal(500, "internal_error", "An error of the server.");

test("a next page that was not read is said at its button, and not of what is shown", async () => {
  const first = { running: [running], waiting: [waiting], running_total: 1, waiting_total: 9 };
  serve({
    "GET /virtual-clusters/vision/queue": ({ url }: Request) =>
      url.includes("cursor")
        ? broken()
        : { ...first, next: "/api/v1/virtual-clusters/vision/queue?cursor=1" },
  });
  renderPage(<QueueTab name="vision" />);
  await userEvent.click(await screen.findByRole("button", { name: "Show more" }));
  expect(await screen.findByText("An error of the server.")).toBeVisible();
  expect(screen.queryByText(/could not be read again/)).toBeNull();
});

test("an empty queue that could not be read again is said to be old", async () => {
  let answer: unknown = {
    running: [],
    waiting: [],
    running_total: 0,
    waiting_total: 0,
    next: null,
  };
  serve({ "GET /virtual-clusters/vision/queue": () => answer });
  renderPage(<QueueTab name="vision" />);
  await screen.findByText("Nothing runs and nothing waits");
  answer = broken();
  act(() => window.dispatchEvent(new Event("visibilitychange")));
  expect(await screen.findByText(/The queue could not be read again/)).toBeVisible();
});
