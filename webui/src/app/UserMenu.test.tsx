import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { readDraft, storeDraft } from "@/features/job-file/storedDraft";
import { renderPage } from "@/test/render";
import { aUser } from "@/test/rows";
import { serve } from "@/test/server";
import { UserMenu } from "./UserMenu";

vi.mock("@/live/live", () => ({ live: { close: () => undefined } }));

test("finding U27: the menu leads to the API's documentation", async () => {
  renderPage(<UserMenu user={aUser()} onKeys={() => undefined} />);
  await userEvent.click(await screen.findByRole("button", { name: /mei/ }));
  const link = await screen.findByRole("menuitem", { name: "API documentation" });
  expect(link).toHaveAttribute("href", "/api/v1/docs");
});

test("what was written and not submitted goes with the logout", async () => {
  document.cookie = "skep_csrf=x";
  storeDraft({ user: "mei", entry: "", text: "name: train" });
  serve({ "POST /auth/logout": new Response(null, { status: 204 }) });
  renderPage(<UserMenu user={aUser()} onKeys={() => undefined} />);
  await userEvent.click(await screen.findByRole("button", { name: /mei/ }));
  await userEvent.click(await screen.findByRole("menuitem", { name: "Log out" }));
  await waitFor(() => expect(readDraft("mei")).toBeNull());
});
