import { screen, within } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { aUser } from "@/test/rows";
import { serve } from "@/test/server";
import { HealthPage } from "./HealthPage";

afterEach(() => vi.unstubAllGlobals());

function draw(alerts: object[], predictions: object = {}) {
  const health = { healthy: alerts.length === 0, log_bytes_waiting: 0, alerts };
  serve({
    "GET /me": aUser({ is_admin: true }),
    "GET /health": health,
    "GET /predictions": {
      days: 30,
      promised_coverage: 0.8,
      sources: [],
      starts: { jobs: 0, coverage: null },
      ...predictions,
    },
  });
  renderPage(<HealthPage />);
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
