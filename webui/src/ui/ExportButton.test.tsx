import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { ExportButton } from "./ExportButton";

test("all pages of the list are downloaded, with the filter and the order of the page", async () => {
  const filter = { state: "FAILED", search: "a&b", ordering: "name", cursor: "x", limit: 50 };
  renderPage(<ExportButton list="jobs" filter={{ ...filter, owner: undefined }} />);
  const link = await screen.findByRole("link", { name: "Export CSV" });
  expect(link).toHaveAttribute(
    "href",
    "/api/v1/jobs?format=csv&state=FAILED&search=a%26b&ordering=name",
  );
  expect(link).toHaveAttribute("download");
});
