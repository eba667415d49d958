import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { ApiError } from "@/api/errors";
import { renderPage } from "@/test/render";
import { ErrorState } from "./EmptyState";

test("a failure shows its reason and can be tried again", async () => {
  const retry = vi.fn();
  const error = new ApiError(503, "database_away", "The database is away.");
  renderPage(<ErrorState error={error} what="list of jobs" retry={retry} />);
  expect(await screen.findByRole("alert")).toHaveTextContent("The database is away.");
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(retry).toHaveBeenCalledOnce();
});

test("what does not exist cannot be tried again", async () => {
  renderPage(<ErrorState error={new ApiError(404, "not_found", "x")} what="job" retry={vi.fn()} />);
  expect(await screen.findByRole("heading", { name: "No such job" })).toBeVisible();
  expect(screen.queryByRole("button")).toBeNull();
});
