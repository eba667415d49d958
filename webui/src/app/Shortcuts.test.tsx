import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { ShortcutsDialog, SHORTCUTS } from "./Shortcuts";

test("finding U28: the keys are shown, each with what it does", async () => {
  renderPage(<ShortcutsDialog open onClose={() => undefined} />);
  expect(await screen.findByRole("dialog", { name: "Keyboard shortcuts" })).toBeVisible();
  for (const { does } of SHORTCUTS) expect(screen.getByText(does)).toBeVisible();
});
