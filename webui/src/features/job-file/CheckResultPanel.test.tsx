import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { ApiError } from "@/api/errors";
import type { CheckResult } from "@/api/types";
import { renderPage } from "@/test/render";
import { aWaitReason } from "@/test/rows";
import { CheckResultPanel } from "./CheckResultPanel";

const good: CheckResult = {
  valid: true,
  errors: [],
  notes: [],
  summary: { name: "train", virtual_cluster: "vision", gpus: 16, tasks: 1 },
  forecast: aWaitReason("Needs 16; vision has 4 free."),
};
const bad: CheckResult = {
  valid: false,
  errors: [
    { code: "x", message: "There is no field cpus.", path: "taskRoles.w", line: 12, column: 5 },
    { code: "y", message: "No such image.", path: "prerequisites[0]", line: 4, column: 3 },
  ],
  notes: [],
  summary: null,
  forecast: null,
};

test("finding U9: a job whose storage is not mounted asks for a confirmation", async () => {
  const note = {
    code: "storage_not_mounted",
    message: "No storage.",
    path: "",
    line: 3,
    column: 1,
  };
  const onAcceptLoss = vi.fn();
  const verdict = { text: "", result: { ...good, notes: [note] } };
  const page = { verdict, failure: null, onGoTo: vi.fn(), onAcceptLoss };
  renderPage(<CheckResultPanel {...page} />);
  const box = { name: "Submit although its storage is not mounted" };
  await userEvent.click(await screen.findByRole("checkbox", box));
  expect(onAcceptLoss).toHaveBeenCalledWith(true);
});

function draw(result: CheckResult | null, failure: unknown = null) {
  const onGoTo = vi.fn();
  const verdict = result && { text: "", result };
  renderPage(<CheckResultPanel verdict={verdict} failure={failure} onGoTo={onGoTo} />);
  return onGoTo;
}

test("a good job is summed up, with why it would wait", async () => {
  draw(good);
  expect(await screen.findByText(/asks vision for/)).toHaveTextContent(
    "for 1 task with 16 GPUs in all.",
  );
  expect(screen.getByText("Needs 16; vision has 4 free.")).toBeVisible();
});

test("fields without an effect are shown with their line", async () => {
  const message = "gangReleaseEnable has no effect.";
  const note = { code: "unused", message, path: "extras", line: 7, column: 3 };
  const onGoTo = draw({ ...good, notes: [note] });
  await userEvent.click(await screen.findByRole("button", { name: /Line 7.*has no effect/ }));
  expect(onGoTo).toHaveBeenCalledWith(7, 3);
});

test("every mistake is shown with its line, and leads there", async () => {
  const onGoTo = draw(bad);
  await userEvent.click(await screen.findByRole("button", { name: /Line 12/ }));
  expect(onGoTo).toHaveBeenCalledWith(12, 5);
  expect(screen.getByRole("heading", { name: "2 mistakes" })).toBeVisible();
});

test("a refusal that is no fault of the file is shown in the server's words", async () => {
  draw(null, new ApiError(409, "name_taken", "You have a job named train."));
  expect(await screen.findByRole("alert")).toHaveTextContent("You have a job named train.");
});
