import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { aUser } from "@/test/rows";
import { UserMenu } from "./UserMenu";

vi.mock("@/live/live", () => ({ live: { close: () => undefined } }));

test("finding U27: the menu leads to the API's documentation", async () => {
  renderPage(<UserMenu user={aUser()} onKeys={() => undefined} />);
  await userEvent.click(await screen.findByRole("button", { name: /mei/ }));
  const link = await screen.findByRole("menuitem", { name: "API documentation" });
  expect(link).toHaveAttribute("href", "/api/v1/docs");
});
