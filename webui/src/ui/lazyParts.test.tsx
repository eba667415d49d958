import { render, screen } from "@testing-library/react";
import { Suspense } from "react";
import { afterEach, expect, test, vi } from "vitest";
import { lazyPart, reloadWhenPartsAreMissing } from "./lazyParts";

const reload = vi.fn();

afterEach(() => {
  sessionStorage.clear();
  vi.unstubAllGlobals();
});

/** As Vite reports it: whether the error was handled, so that the load gives no module. */
function losePart(): boolean {
  return !dispatchEvent(new Event("vite:preloadError", { cancelable: true }));
}

test("a missing part reloads the page once a visit, and after three visits its error is shown", () => {
  vi.stubGlobal("location", { reload });
  for (let visits = 1; visits <= 3; visits += 1) {
    const visit = new AbortController();
    reloadWhenPartsAreMissing(visit.signal);
    expect(losePart()).toBe(true);
    expect(losePart()).toBe(true);
    expect(reload).toHaveBeenCalledTimes(visits);
    visit.abort();
  }
  reloadWhenPartsAreMissing();
  expect(losePart()).toBe(false);
});

test("a part that is being reloaded shows what waits, not an error", async () => {
  const Part = lazyPart(() => Promise.resolve(undefined as never));
  render(
    <Suspense fallback="loading">
      <Part />
    </Suspense>,
  );
  await new Promise((done) => setTimeout(done, 20));
  expect(screen.getByText("loading")).toBeDefined();
});
