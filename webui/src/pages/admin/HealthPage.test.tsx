import { act, screen, within } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { aUser } from "@/test/rows";
import { refusal, serve } from "@/test/server";
import { HealthPage } from "./HealthPage";

afterEach(() => vi.unstubAllGlobals());

const healthOf = (alerts: object[]) => ({
  healthy: alerts.length === 0,
  log_bytes_waiting: 0,
  alerts,
});
const failure = () => refusal(500, "internal_error", "An error of the server.");

function draw(alerts: object[], predictions: object = {}, answers: Record<string, unknown> = {}) {
  serve({
    "GET /me": aUser({ is_admin: true }),
    "GET /health": healthOf(alerts),
    "GET /predictions": {
      days: 30,
      promised_coverage: 0.8,
      sources: [],
      starts: { jobs: 0, coverage: null },
      ...predictions,
    },
    ...answers,
  });
  return renderPage(<HealthPage />);
}

test("each part is listed, and the one that has a problem says so", async () => {
  const details = { rounds: 90 };
  const message = "No worker takes the rounds of the scheduler.";
  draw([{ code: "scheduler_stopped", severity: "critical", message, since: null, details }]);
  const parts = await screen.findByRole("region", { name: "Parts" });
  const rows = within(parts).getAllByRole("listitem");
  expect(rows.map((row) => row.textContent)).toContain("Scheduler critical, see below");
  expect(rows.filter((row) => row.dataset["state"] === "ok")).toHaveLength(rows.length - 1);
  expect(within(screen.getByRole("list", { name: "Problems" })).getByText(message)).toBeVisible();
});

test("a platform without an alert has no problems", async () => {
  draw([]);
  const parts = await screen.findByRole("region", { name: "No problems" });
  const states = within(parts)
    .getAllByRole("listitem")
    .map((row) => row.dataset["state"]);
  expect(new Set(states)).toEqual(new Set(["ok"]));
});

test("how often intervals of starts held is said, also before any duration was scored", async () => {
  draw([], { starts: { jobs: 1203, coverage: 0.824 } });
  const part = await screen.findByRole("region", { name: "Predicted durations and starts" });
  expect(part).toHaveTextContent("Of 1,203 jobs");
  expect(part).toHaveTextContent("82% started within it");
});

test("an answer of before is not said to be of now when the page cannot be read again", async () => {
  let broken = false;
  draw([], {}, { "GET /health": () => (broken ? failure() : healthOf([])) });
  await screen.findByRole("region", { name: "No problems" });
  broken = true;
  act(() => window.dispatchEvent(new Event("visibilitychange")));
  const note = /The health could not be read again: An error of the server\. .* is from \d\d:/;
  expect(await screen.findByText(note)).toBeVisible();
  expect(screen.queryByText("No problems")).toBeNull();
  expect(screen.getByRole("region", { name: "Parts" })).toBeVisible();
});

test.each([
  ["GET /predictions", "The accuracy of the predictions could not be read"],
  ["GET /alerts", "The list of alerts could not be read"],
])("a failure of %s is shown", async (request, title) => {
  draw([], {}, { [request]: failure });
  expect(await screen.findByText(title)).toBeVisible();
});
