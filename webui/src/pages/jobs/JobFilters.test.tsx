import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPages } from "@/test/render";
import { aUser } from "@/test/rows";
import { serve } from "@/test/server";
import { JobFilters } from "./JobFilters";

test("jobs of another owner are shown as such, and all of them are a click away", async () => {
  serve({ "GET /me": aUser() });
  renderPages({ "/jobs": () => <JobFilters /> }, "/jobs?owner=ada");
  expect(await screen.findByRole("radio", { name: "Of ada" })).toBeChecked();
  await userEvent.click(screen.getByRole("radio", { name: "All" }));
  expect(await screen.findByRole("radio", { name: "All" })).toBeChecked();
  expect(screen.queryByRole("radio", { name: "Of ada" })).toBeNull();
});
