import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { renderPages } from "@/test/render";
import { aUser } from "@/test/rows";
import { DOCUMENTATION } from "@/ui/Documentation";
import { PageHeader } from "@/ui/PageHeader";
import { router } from "./router";
import { ShortcutsDialog, useShortcuts } from "./Shortcuts";
import { UserMenu } from "./UserMenu";
import { useState } from "react";

vi.mock("@/live/live", () => ({ live: { close: () => undefined } }));
afterEach(() => document.head.replaceChildren());

/** As the server fills in the page's element; "" where it has no documentation. */
function published(address: string) {
  const element = document.createElement("meta");
  element.name = "documentation";
  element.content = address;
  document.head.append(element);
}

test("every page of the router has a page of the documentation", () => {
  const routes = Object.keys(router.routesByPath);
  expect(routes.length).toBeGreaterThan(30);
  expect(routes.filter((route) => !DOCUMENTATION[route])).toEqual([]);
});

test.each([
  ["/jobs/0198", "/jobs/$id", "/docs/web.html#look-at-a-job"],
  ["/settings/tokens", "/settings/$section", "/docs/people.html#api-tokens"],
])("the header of %s links what the documentation says of it", async (address, route, target) => {
  published("/docs/");
  renderPages({ [route]: () => <PageHeader title="Anything" /> }, address);
  const link = await screen.findByRole("link", { name: "Documentation of this page" });
  expect(link).toHaveAttribute("href", target);
});

test("without a documentation nothing links one", async () => {
  published("");
  renderPages({ "/jobs": () => <PageHeader title="Jobs" /> }, "/jobs");
  expect(await screen.findByRole("heading", { name: "Jobs" })).toBeVisible();
  expect(screen.queryByRole("link")).toBeNull();
});

test("the user's menu leads to the first page of a documentation elsewhere", async () => {
  published("https://docs.example.org/skep/");
  renderPages({ "/jobs": () => <UserMenu user={aUser()} onKeys={() => undefined} /> }, "/jobs");
  await userEvent.click(await screen.findByRole("button", { name: /mei/ }));
  const link = await screen.findByRole("menuitem", { name: "Documentation" });
  expect(link).toHaveAttribute("href", "https://docs.example.org/skep/index.html");
});

function WithKeys() {
  const [open, setOpen] = useState(false);
  useShortcuts({ "?": () => setOpen(true) });
  return (
    <>
      <input aria-label="Name" />
      <ShortcutsDialog open={open} onClose={() => setOpen(false)} />
    </>
  );
}

test("? shows the keys and the page's documentation, but is a letter in a field", async () => {
  published("/docs/");
  renderPages({ "/cluster": WithKeys }, "/cluster");
  await userEvent.type(await screen.findByLabelText("Name"), "who?");
  expect(screen.getByLabelText("Name")).toHaveValue("who?");
  expect(screen.queryByRole("dialog")).toBeNull();
  await userEvent.tab();
  await userEvent.keyboard("?");
  expect(await screen.findByRole("dialog", { name: "Keyboard shortcuts" })).toBeVisible();
  expect(screen.getByText("Write a new job")).toBeVisible();
  expect(screen.getByRole("link", { name: "Documentation of this page" })).toHaveAttribute(
    "href",
    "/docs/observability.html#watch-nodes-and-gpus",
  );
});
