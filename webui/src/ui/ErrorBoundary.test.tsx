import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { ErrorBoundary } from "./ErrorBoundary";

// React reports each error that a boundary catches.
beforeEach(() => void vi.spyOn(console, "error").mockImplementation(() => undefined));
afterEach(() => void vi.restoreAllMocks());

let broken: boolean;

function Part() {
  if (broken) throw new Error("The chart has no canvas.");
  return <p>The chart.</p>;
}

function Page() {
  const [tab, setTab] = useState("metrics");
  return (
    <>
      <h1>train</h1>
      <button onClick={() => setTab("logs")}>Logs</button>
      <ErrorBoundary what="This tab" resetKey={tab}>
        {tab === "metrics" ? <Part /> : <p>The logs.</p>}
      </ErrorBoundary>
    </>
  );
}

test("a tab that breaks says why, leaves the page, and can be tried again", async () => {
  broken = true;
  renderPage(<Page />);
  expect(await screen.findByRole("alert")).toHaveTextContent("The chart has no canvas.");
  expect(screen.getByRole("heading", { name: "train" })).toBeVisible();
  broken = false;
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(await screen.findByText("The chart.")).toBeVisible();
});

test("another tab shows although one broke", async () => {
  broken = true;
  renderPage(<Page />);
  await screen.findByRole("alert");
  await userEvent.click(screen.getByRole("button", { name: "Logs" }));
  expect(await screen.findByText("The logs.")).toBeVisible();
  expect(screen.queryByRole("alert")).toBeNull();
});
