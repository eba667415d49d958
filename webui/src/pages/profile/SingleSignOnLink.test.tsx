import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { SingleSignOnLink } from "./SingleSignOnLink";

const none = { name: "Example ID", linked: false, linked_at: null, last_used_at: null };
const linked = { ...none, linked: true, linked_at: "2026-01-01T00:00:00Z" };

test("a link ends only after a question", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({
    "GET /me/sso": { ...linked, can_unlink: true },
    "DELETE /me/sso": {},
  });
  renderPage(<SingleSignOnLink refused={undefined} />);
  await userEvent.click(await screen.findByRole("button", { name: "Unlink" }));
  expect(requests.some((request) => request.method === "DELETE")).toBe(false);
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.click(dialog.getByRole("button", { name: "Unlink" }));
  await waitFor(() => expect(requests.some((request) => request.method === "DELETE")).toBe(true));
});

test("the only way to log in is not taken away", async () => {
  serve({ "GET /me/sso": { ...linked, can_unlink: false } });
  renderPage(<SingleSignOnLink refused={undefined} />);
  expect(await screen.findByRole("button", { name: "Unlink" })).toBeDisabled();
  expect(screen.getByText(/your only way to log in/)).toBeVisible();
});

test("a refusal of the provider is told in words of our own", async () => {
  serve({ "GET /me/sso": { ...none, can_unlink: false } });
  renderPage(<SingleSignOnLink refused="sso_linked_elsewhere" />);
  expect(await screen.findByRole("alert")).toHaveTextContent("Another user here is linked");
  expect(screen.getByRole("button", { name: "Link Example ID" })).toBeVisible();
});
