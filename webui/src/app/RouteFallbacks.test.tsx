import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { NotFound } from "./RouteFallbacks";

test("finding U28: the page of a wrong address has a main landmark", async () => {
  renderPage(<NotFound />);
  expect(await screen.findByRole("main")).toHaveTextContent("There is no such page");
});
