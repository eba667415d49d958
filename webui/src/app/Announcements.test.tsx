import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { Announcements } from "./Announcements";

const row = {
  id: "01a1fd43-5d0b-7b89-9374-b0fc22d4ca28",
  severity: "info",
  created_at: "2026-11-20T10:00:00Z",
  expires_at: null,
  dismissed: false,
};

test("announcements stand above the page, a warning with the time until which it holds", async () => {
  const until = "2026-11-23T12:30:00Z";
  serve({
    "GET /announcements": {
      results: [
        { ...row, message: "Rack r2 is switched off.", severity: "warning", expires_at: until },
        { ...row, id: "2", message: "Welcome to Skep." },
        { ...row, id: "3", message: "Old news.", dismissed: true },
      ],
      next: null,
      previous: null,
    },
  });
  renderPage(<Announcements />);
  const shown = await screen.findAllByRole("listitem");
  expect(shown.map((item) => item.textContent)).toEqual([
    expect.stringMatching(/^Rack r2 is switched off\. \(until .*\)$/),
    "Welcome to Skep.",
  ]);
});

test("without announcements nothing is shown", async () => {
  serve({ "GET /announcements": { results: [], next: null, previous: null } });
  const { container } = renderPage(<Announcements />);
  await new Promise(requestAnimationFrame);
  expect(container.querySelector("ul")).toBeNull();
});
