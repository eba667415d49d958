import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { ApiTokens } from "./ApiTokens";

const laptop = {
  id: "t1",
  name: "laptop",
  last4: "1234",
  scope: "submit",
  last_used_at: null,
  created_at: "2026-01-01T00:00:00Z",
  expires_at: null,
};

test("a new token is shown once, and is gone when the dialog is closed", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({
    "GET /auth/tokens": [],
    "POST /auth/tokens": { ...laptop, token: "secret-token" },
  });
  renderPage(<ApiTokens />);
  await userEvent.click(await screen.findByRole("button", { name: "New token" }));
  await userEvent.type(await screen.findByLabelText("Name"), "laptop");
  await userEvent.click(screen.getByRole("button", { name: "Create" }));
  expect(await screen.findByText("secret-token")).toBeVisible();
  const post = requests.find((request) => request.method === "POST");
  expect(await post?.json()).toEqual({
    name: "laptop",
    expires_in_s: 30 * 86_400,
    scope: "submit",
  });
  await userEvent.click(screen.getByRole("button", { name: "Done" }));
  expect(screen.queryByText("secret-token")).toBeNull();
});

test("a token is revoked only after a question", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({ "GET /auth/tokens": [laptop], "DELETE /auth/tokens/t1": {} });
  renderPage(<ApiTokens />);
  await userEvent.click(await screen.findByRole("button", { name: "Revoke laptop" }));
  expect(requests.some((request) => request.method === "DELETE")).toBe(false);
  await userEvent.click(await screen.findByRole("button", { name: "Revoke" }));
  await waitFor(() => expect(requests.some((request) => request.method === "DELETE")).toBe(true));
});
