import { screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { aWaitReason, aWholeJob } from "@/test/rows";
import { serve } from "@/test/server";
import { JobHeader } from "./JobHeader";

vi.mock("@/live/live", () => ({ useLiveQueries: () => undefined, usePoll: () => false }));

test("why a job waits is announced, and not each minute of its countdown", async () => {
  serve({});
  const reason = aWaitReason("All 32 GPUs of vision are in use.", {
    expected_start: Date.now() / 1000 + 3600,
  });
  const job = aWholeJob({ state: "WAITING", placed_at: null, wait_reason: reason });
  renderPage(<JobHeader job={job} tab="logs" />);
  expect(await screen.findByText(/in about 1 h/)).toBeVisible();
  expect(screen.getByRole("status")).toHaveTextContent(/^All 32 GPUs of vision are in use\.$/);
});
