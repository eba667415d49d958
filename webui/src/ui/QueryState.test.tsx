import { screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { QueryState } from "./QueryState";

function show(query: { data: string[] | undefined; isPending?: boolean; error?: unknown }) {
  const refetch = vi.fn();
  renderPage(
    <QueryState query={{ isPending: false, error: null, refetch, ...query }} what="list of images">
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

test("what was read before stays when a later read fails", async () => {
  show({ data: ["a", "b"], error: new Error("no answer") });
  expect(await screen.findByText("2 images")).toBeVisible();
});
