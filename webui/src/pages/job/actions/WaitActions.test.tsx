import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { aWaitReason, aWholeJob } from "@/test/rows";
import { serve } from "@/test/server";
import { WaitActions } from "./WaitActions";

const waits = aWholeJob({ state: "WAITING", placed_at: null, started_at: null });
const reason = aWaitReason("Busy.", { opportunistic_now: true });

test("a job that could start as opportunistic is started so after a question", async () => {
  const asked = vi.fn(() => ({ ...waits, priority: -1 }));
  serve({ [`POST /jobs/${waits.id}/opportunistic`]: asked });
  renderPage(<WaitActions job={{ ...waits, wait_reason: reason }} />);
  await userEvent.click(await screen.findByRole("button", { name: "Run now as opportunistic" }));
  await userEvent.click(await screen.findByRole("button", { name: "Run now" }));
  await vi.waitFor(() => expect(asked).toHaveBeenCalled());
});

test("without free GPUs or the right to it there is no such button", async () => {
  const busy = aWaitReason("Busy.", { opportunistic_now: false });
  renderPage(
    <>
      <WaitActions job={{ ...waits, wait_reason: busy, may_prioritise: true }} />
      <WaitActions job={{ ...waits, wait_reason: reason, may_stop: false }} />
    </>,
  );
  expect(await screen.findByRole("button", { name: "Change its priority" })).toBeVisible();
  expect(screen.queryByRole("button", { name: "Run now as opportunistic" })).toBeNull();
});
