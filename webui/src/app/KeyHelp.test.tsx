import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { KeyHelp, KEYS } from "./KeyHelp";

test("finding U28: the keys are told, each with what it does", async () => {
  renderPage(<KeyHelp open onClose={() => undefined} />);
  expect(await screen.findByRole("dialog", { name: "Keyboard shortcuts" })).toBeVisible();
  for (const { does } of KEYS) expect(screen.getByText(does)).toBeVisible();
});
