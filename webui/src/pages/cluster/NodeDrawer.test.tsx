import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aNode, aUser } from "@/test/rows";
import { refusal, serve } from "@/test/server";
import { NodeDrawer, NodeFaults } from "./NodeDrawer";

const EMPTY = { results: [], next: null, previous: null };
const WARNING = {
  code: "live_restore_off",
  message: "A restart of the engine ends all tasks.",
  action: 'Set "live-restore": true.',
};

function open(admin: boolean) {
  serve({
    "GET /me": aUser({ is_admin: admin }),
    "GET /nodes/hive-01": aNode({ warnings: [WARNING] }),
    "GET /nodes/hive-01/faults": EMPTY,
    "GET /nodes/hive-01/images": EMPTY,
    "GET /nodes/hive-01/checks": EMPTY,
    "GET /maintenance-windows": EMPTY,
  });
  renderPage(<NodeDrawer name="hive-01" onClose={() => undefined} />);
}

test("an admin reads what to see to on a node, and what to do", async () => {
  open(true);
  const warning = await screen.findByText(/A restart of the engine/);
  expect(warning).toHaveTextContent('Set "live-restore": true.');
});

test("others, who can do nothing about it, do not", async () => {
  open(false);
  await screen.findByText("Heartbeat");
  expect(screen.queryByText(/A restart of the engine/)).toBeNull();
});

test("faults that could not be read are not shown as none", async () => {
  serve({
    "GET /nodes/n1/faults": () => refusal(500, "internal_error", "An error of the server."),
  });
  renderPage(<NodeFaults node={{ name: "n1" }} />);
  expect(await screen.findByRole("alert")).toHaveTextContent(
    "The list of its faults could not be read",
  );
});
