import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { ImageSave } from "@/api/imageSaves";
import { renderPage } from "@/test/render";
import { anAttempt, aTask, aWholeJob } from "@/test/rows";
import { serve } from "@/test/server";
import { taskName } from "@/format/names";
import { ImageSaveList } from "./SaveImage";

const job = aWholeJob({ may_exec: true });
const task = aTask({ attempt: anAttempt() });
const save: ImageSave = {
  id: "s1",
  job: job.id,
  job_name: job.name,
  virtual_cluster: "vision",
  task: taskName(task),
  reference: "registry.example.org/ann/env:1",
  state: "PUSHING",
  percent: 40,
  code: "",
  message: "",
  digest: "",
  size: null,
  created_by: "ann",
  created_at: "2026-01-01T10:00:00Z",
  ended_at: null,
};

test("a save that is under way is cancelled, and is then shown as cancelled and not as failed", async () => {
  let row = save;
  const requests = serve({
    [`GET /jobs/${job.id}/image-saves`]: () => ({ results: [row], next: null, previous: null }),
    "DELETE /image-saves/s1": () => {
      row = { ...save, state: "FAILED", code: "save_cancelled", message: "ann cancelled it." };
      return new Response(null, { status: 204 });
    },
  });
  renderPage(<ImageSaveList job={job} task={task} />);
  await userEvent.click(await screen.findByRole("button", { name: /^Cancel saving/ }));
  expect(await screen.findByText("ann cancelled it.")).toBeVisible();
  expect(screen.getByText("Cancelled")).toBeVisible();
  await waitFor(() => expect(screen.queryByRole("button", { name: /^Cancel/ })).toBeNull());
  expect(requests.filter((one) => one.method === "DELETE")).toHaveLength(1);
});
