import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPages } from "@/test/render";
import { refusal, serve } from "@/test/server";
import { JobPage } from "./JobPage";

test("the page of a job that was archived leads to its record", async () => {
  serve({ "GET /jobs/j1": refusal(404, "job_archived", "The job was moved to the archive.") });
  renderPages({ "/jobs/$id": JobPage, "/archive/$id": () => null }, "/jobs/j1");
  expect(await screen.findByText("This job was archived")).toBeVisible();
  const link = screen.getByRole("link", { name: "Open its record" });
  expect(link).toHaveAttribute("href", "/archive/j1");
});
