import { screen, waitFor } from "@testing-library/react";
import { useQuery } from "@tanstack/react-query";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { ApiError } from "@/api/errors";
import { renderPage } from "@/test/render";
import { ReadNote } from "./ReadNote";

/** A part that shows nothing while it is read. */
function Part({ read }: { read: () => Promise<string[]> }) {
  const query = useQuery({ queryKey: ["checks"], queryFn: read });
  return (
    <>
      <h1>Node</h1>
      <ReadNote query={query} what="list of its checks" />
      {query.data?.map((each) => (
        <p key={each}>{each}</p>
      ))}
    </>
  );
}

test("a part that was not read says so, keeps the focus while it is tried again, and then goes", async () => {
  let reads = 0;
  let answer: (checks: string[]) => void = () => undefined;
  const read = () => {
    reads += 1;
    if (reads === 1) return Promise.reject(new Error("The database is busy."));
    return new Promise<string[]>((resolve) => (answer = resolve));
  };
  renderPage(<Part read={read} />);
  const note = await screen.findByRole("alert");
  expect(note).toHaveTextContent("The list of its checks could not be read: The database is busy.");
  const again = screen.getByRole("button", { name: "Try again" });
  await userEvent.click(again);
  await waitFor(() => expect(note).toHaveTextContent("Trying again…"));
  expect(again).toHaveFocus();
  answer(["disk passed"]);
  expect(await screen.findByText("disk passed")).toBeVisible();
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a session that ended is asked for over the page, and not in each of its parts", async () => {
  let asked = false;
  renderPage(
    <Part
      read={() => {
        asked = true;
        return Promise.reject(new ApiError(401, "not_authenticated", "Log in."));
      }}
    />,
  );
  await waitFor(() => expect(asked).toBe(true));
  expect(await screen.findByText("Node")).toBeVisible();
  expect(screen.queryByRole("alert")).toBeNull();
});
