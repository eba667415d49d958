import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { refusal, serve } from "@/test/server";
import { NodeFaults } from "./NodeDrawer";

test("faults that could not be read are not shown as none", async () => {
  serve({
    "GET /nodes/n1/faults": () => refusal(500, "internal_error", "An error of the server."),
  });
  renderPage(<NodeFaults node={{ name: "n1" }} />);
  expect(await screen.findByRole("alert")).toHaveTextContent(
    "The list of its faults could not be read",
  );
});
