import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aNode } from "@/test/rows";
import { serve } from "@/test/server";
import { NodeLabels } from "./NodeLabels";

test("only changed labels are sent, and an emptied one goes back to the agent's word", async () => {
  document.cookie = "skep_csrf=x";
  const node = aNode({ labels: { rack: "r1", fabric: "f1" } });
  const requests = serve({
    "PATCH /nodes/hive-01": node,
  });
  renderPage(<NodeLabels node={node} />);
  const save = await screen.findByRole("button", { name: "Save labels" });
  expect(save).toBeDisabled();
  await userEvent.clear(screen.getByRole("combobox", { name: "Rack" }));
  await userEvent.click(save);
  await waitFor(() => expect(requests.some((each) => each.method === "PATCH")).toBe(true));
  const sent = requests.find((each) => each.method === "PATCH");
  expect(await sent?.json()).toEqual({ labels: { rack: null } });
});
