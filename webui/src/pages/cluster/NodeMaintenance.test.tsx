import { fireEvent, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { Maintenance, NodeCheck } from "@/api/types";
import { renderPage } from "@/test/render";
import { aNode } from "@/test/rows";
import { refusal, serve } from "@/test/server";
import { NodeChecks, NodeMaintenance } from "./NodeMaintenance";

const page = (results: unknown[]) => ({ results, next: null, previous: null });

const WINDOW: Maintenance = {
  id: "0193f0c0-0000-7000-8000-000000000001",
  node: "hive-01",
  starts_at: "2026-12-01T08:00:00Z",
  ends_at: "2026-12-01T12:00:00Z",
  reason: "new fans",
  state: "PLANNED",
  created_by: "root",
  created_at: "2026-11-27T08:00:00Z",
};

const FAILED: NodeCheck = {
  id: "0193f0c0-0000-7000-8000-000000000002",
  cause: "joined",
  state: "FAILED",
  due_at: "2026-11-27T08:00:00Z",
  finished_at: "2026-11-27T08:01:00Z",
  results: [
    { name: "disk", passed: true, message: "", numbers: { write_mb_s: 900 } },
    { name: "gpu GPU-1", passed: false, message: "bit flip", numbers: {} },
  ],
};

test("an admin plans a window for the node", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({
    "GET /maintenance-windows": page([WINDOW]),
    "POST /maintenance-windows": [WINDOW],
  });
  renderPage(<NodeMaintenance node={aNode({})} canPlan />);
  await screen.findByText(/new fans/);
  const plan = screen.getByRole("button", { name: "Plan" });
  expect(plan).toBeDisabled();
  fireEvent.change(screen.getByLabelText("From"), { target: { value: "2026-12-02T08:00" } });
  fireEvent.change(screen.getByLabelText("Until"), { target: { value: "2026-12-02T10:00" } });
  await userEvent.click(plan);
  await waitFor(() => expect(requests.some((each) => each.method === "POST")).toBe(true));
  const sent = await requests.find((each) => each.method === "POST")?.json();
  expect(sent).toEqual({
    nodes: ["hive-01"],
    starts_at: new Date("2026-12-02T08:00").toISOString(),
    ends_at: new Date("2026-12-02T10:00").toISOString(),
    reason: "",
  });
});

test("others see the windows and cannot change them", async () => {
  serve({ "GET /maintenance-windows": page([WINDOW]) });
  renderPage(<NodeMaintenance node={aNode({})} canPlan={false} />);
  await screen.findByText(/new fans/);
  expect(screen.queryByRole("button")).toBeNull();
});

test("a check shows what failed", async () => {
  serve({ "GET /nodes/hive-01/checks": page([FAILED]) });
  renderPage(<NodeChecks node={aNode({})} canCheck={false} />);
  await screen.findByText("gpu GPU-1: bit flip");
  expect(screen.queryByText(/disk/)).toBeNull();
});

test("maintenance and checks that could not be read are said, and read again", async () => {
  let away = true;
  const orAway = (answer: unknown) => () =>
    away ? refusal(503, "database_away", "The database is away.") : answer;
  serve({
    "GET /maintenance-windows": orAway(page([WINDOW])),
    "GET /nodes/hive-01/checks": orAway(page([FAILED])),
  });
  renderPage(
    <>
      <NodeMaintenance node={aNode({})} canPlan={false} />
      <NodeChecks node={aNode({})} canCheck={false} />
    </>,
  );
  const why = "could not be read: The database is away.";
  expect(await screen.findByText(`The list of its maintenance ${why}`)).toBeVisible();
  expect(await screen.findByText(`The list of its checks ${why}`)).toBeVisible();
  away = false;
  for (const again of screen.getAllByRole("button", { name: "Try again" }))
    await userEvent.click(again);
  expect(await screen.findByText(/new fans/)).toBeVisible();
  expect(await screen.findByText("gpu GPU-1: bit flip")).toBeVisible();
  expect(screen.queryByRole("alert")).toBeNull();
});
