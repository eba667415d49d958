import { screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { ApiError } from "@/api/errors";
import { renderPage } from "@/test/render";
import { QueryState } from "./QueryState";

const READ_AT = new Date(2026, 10, 5, 9, 41, 7).getTime();

function show(query: { data: string[] | undefined; isPending?: boolean; error?: unknown }) {
  const refetch = vi.fn();
  renderPage(
    <QueryState
      query={{
        dataUpdatedAt: READ_AT,
        isPending: false,
        isFetching: false,
        error: null,
        refetch,
        ...query,
      }}
      what="list of images"
    >
      {(data) => <p>{data.length} images</p>}
    </QueryState>,
  );
  return refetch;
}

test("while nothing was read, a skeleton stands there", async () => {
  show({ data: undefined, isPending: true });
  expect(await screen.findByRole("status", { name: "Loading" })).toBeVisible();
});

test("a failure says what could not be read and can be tried again", async () => {
  const refetch = show({ data: undefined, error: new Error("no answer") });
  expect(await screen.findByRole("alert")).toHaveTextContent(
    "The list of images could not be read",
  );
  screen.getByRole("button", { name: "Try again" }).click();
  expect(refetch).toHaveBeenCalledOnce();
});

test("what was read before stays when a later read fails, and is said to be old", async () => {
  const refetch = show({ data: ["a", "b"], error: new Error("No answer.") });
  expect(await screen.findByText("2 images")).toBeVisible();
  const note = screen.getByRole("status");
  expect(note).toHaveTextContent(
    "The list of images could not be read again: No answer. What you see is from 09:41:07.",
  );
  screen.getByRole("button", { name: "Try again" }).click();
  expect(refetch).toHaveBeenCalledOnce();
});

test("a session that ended is asked for over the page, and not in each of its parts", async () => {
  show({ data: ["a"], error: new ApiError(401, "not_authenticated", "Log in.") });
  expect(await screen.findByText("1 images")).toBeVisible();
  expect(screen.queryByRole("status")).toBeNull();
});
