import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { FormattedMessage } from "./FormattedMessage";

test("what stands between backticks is to be typed", async () => {
  renderPage(
    <p data-testid="said">
      <FormattedMessage text="Raise `memoryMB`, or use less." />
    </p>,
  );
  expect(await screen.findByText("memoryMB")).toHaveProperty("tagName", "CODE");
  expect(screen.getByTestId("said")).toHaveTextContent("Raise memoryMB, or use less.");
});

test("a single backtick is left as it is", async () => {
  renderPage(
    <p data-testid="said">
      <FormattedMessage text="a ` b" />
    </p>,
  );
  expect(await screen.findByTestId("said")).toHaveTextContent("a ` b");
});
