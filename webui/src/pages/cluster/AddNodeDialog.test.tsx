import { act, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { AddNodeDialog } from "./AddNodeDialog";

beforeEach(() => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  document.cookie = "skep_csrf=x";
});
afterEach(() => {
  vi.useRealTimers();
});

test("finding U26: install, join and run are shown, and after a minute what to check", async () => {
  const command = "skep-agent join --server https://skep.example --token t0ken";
  serve({
    "POST /nodes/join-tokens": {
      token: "t0ken",
      expires_at: "2026-01-01T00:00:00Z",
      command,
    },
  });
  const user = userEvent.setup({ advanceTimers: vi.advanceTimersByTime });
  renderPage(<AddNodeDialog nodes={[]} />);
  await user.click(await screen.findByRole("button", { name: "Add a node" }));
  expect(await screen.findByText("pip install 'skep[agent]'")).toBeVisible();
  expect(screen.getByText(command)).toBeVisible();
  expect(screen.getByText("skep-agent run")).toBeVisible();
  expect(screen.getByText(/Waiting for the agent to join/)).toBeVisible();
  expect(screen.queryByText(/Nothing has come yet/)).toBeNull();
  act(() => void vi.advanceTimersByTime(60_000));
  expect(await screen.findByText(/Nothing has come yet/)).toBeVisible();
  expect(screen.getByText("curl https://skep.example/api/v1/info")).toBeVisible();
});
