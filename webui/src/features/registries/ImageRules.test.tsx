import { fireEvent, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { ImageRules } from "./ImageRules";

const PATH = "/virtual-clusters/vision/image-rules";

test("an image is tested against the patterns", async () => {
  serve({
    [`GET ${PATH}`]: { patterns: ["vision/*"] },
    [`GET ${PATH}/check`]: {
      image: "evil/miner:1",
      allowed: false,
      patterns: [],
      reason: "No pattern matches.",
    },
  });
  renderPage(<ImageRules vc="vision" />);
  await screen.findByText("vision/*");
  await userEvent.type(screen.getByLabelText(/Test an image/), "evil/miner:1");
  await userEvent.click(screen.getByRole("button", { name: "Test" }));
  await screen.findByText("Not allowed. No pattern matches.");
});

test("patterns are written one in each line", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({
    [`GET ${PATH}`]: { patterns: [] },
    [`PUT ${PATH}`]: { patterns: ["a/*", "b:1"] },
  });
  renderPage(<ImageRules vc="vision" />);
  await screen.findByText("Every image is allowed.");
  await userEvent.click(screen.getByRole("button", { name: "Change the patterns" }));
  const value = "a/*\n\n b:1 ";
  fireEvent.change(await screen.findByLabelText("Patterns"), { target: { value } });
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(screen.queryByLabelText("Patterns")).toBeNull());
  const put = requests.find((request) => request.method === "PUT");
  expect(await put?.json()).toEqual({ patterns: ["a/*", "b:1"] });
});
