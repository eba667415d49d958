import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import type { Template } from "@/api/templates";
import { aJob, aUser, aWaitReason } from "@/test/rows";
import { renderPages } from "@/test/render";
import { refusal, serve } from "@/test/server";
import SubmitTemplateDialog from "./SubmitTemplateDialog";

const TEMPLATE: Template = {
  name: "hello",
  title: "Hello",
  description: "Prints lines.",
  owner: "",
  virtual_cluster: null,
  shipped: true,
  listed: true,
  gpus: 0,
  tasks: 1,
  stars: 0,
  starred: false,
  updated_at: "2026-11-01T00:00:00Z",
  text: "protocolVersion: 2\nname: hello\nparameters:\n  steps: 3\n",
  parameters: { steps: 3 },
  may_change: false,
};
const USER = aUser({
  is_admin: false,
  virtual_clusters: [
    { name: "audio", role: "viewer" },
    { name: "vision", role: "member" },
    { name: "speech", role: "member" },
  ],
});
const VALID = {
  valid: true,
  errors: [],
  notes: [],
  summary: { name: "hello", virtual_cluster: "vision", gpus: 0, tasks: 1 },
  forecast: aWaitReason("Starts at once."),
};

afterEach(() => {
  vi.unstubAllGlobals();
  onEdit.mockClear();
});

const onEdit = vi.fn();

/** Opens the dialog with other parameters than the template has. */
async function open(answers: Record<string, unknown>) {
  const requests = serve({ "GET /me": USER, ...answers });
  const parameters = { steps: 9 };
  const dialog = () => (
    <SubmitTemplateDialog {...{ template: TEMPLATE, parameters, onEdit, onClose: vi.fn() }} />
  );
  renderPages({ "/here": dialog, "/jobs/$id": () => <p>Page of the job</p> }, "/here");
  return { requests, dialog: await screen.findByRole("dialog", { name: "Submit Hello" }) };
}

const sent = async (requests: Request[], path: string) =>
  (await Promise.all(
    requests.filter(({ url }) => url.endsWith(path)).map((request) => request.text()),
  )) as string[];

test("a template is checked with its parameters, says when it starts, and is submitted", async () => {
  let answer: (verdict: object) => void = () => undefined;
  const { requests, dialog } = await open({
    "POST /jobs/check": () => new Promise((resolve) => (answer = resolve)),
    "POST /jobs": aJob({ id: "7", name: "hello" }),
  });
  const submit = within(dialog).getByRole("button", { name: "Submit" });
  expect(within(dialog).getByRole("status")).toHaveTextContent(
    "Checking whether vision can run it",
  );
  expect(submit).toBeDisabled();

  answer(VALID);
  await within(dialog).findByText("Starts at once.");
  await userEvent.click(submit);
  await screen.findByText("Page of the job");
  const [job] = await sent(requests, "/jobs");
  expect(job).toContain("steps: 9");
  expect(job).toContain("virtualCluster: vision");
});

test("another virtual cluster is checked anew, and those of a viewer are not offered", async () => {
  const { requests, dialog } = await open({ "POST /jobs/check": VALID });
  await within(dialog).findByText("Starts at once.");
  await userEvent.click(within(dialog).getByRole("combobox", { name: "Virtual cluster" }));
  expect(screen.queryByRole("option", { name: "audio" })).toBeNull();
  await userEvent.click(await screen.findByRole("option", { name: "speech" }));
  await waitFor(async () =>
    expect((await sent(requests, "/jobs/check")).at(-1)).toContain("virtualCluster: speech"),
  );
});

test("mistakes are shown and nothing can be submitted", async () => {
  const error = { code: "x", message: "No such image.", path: "", line: 4, column: 3 };
  const invalid = { ...VALID, valid: false, errors: [error], forecast: null };
  const { dialog } = await open({ "POST /jobs/check": invalid });
  await within(dialog).findByText(/No such image/);
  expect(within(dialog).getByRole("button", { name: "Submit" })).toBeDisabled();
  await userEvent.click(within(dialog).getByRole("button", { name: "Edit it first" }));
  expect(onEdit).toHaveBeenCalled();
});

test("a check without an answer is said and can be repeated", async () => {
  let fails = true;
  const { dialog } = await open({
    "POST /jobs/check": () => (fails ? refusal(503, "unavailable", "Try again.") : VALID),
  });
  await within(dialog).findByText("Try again.");
  fails = false;
  await userEvent.click(within(dialog).getByRole("button", { name: "Check again" }));
  await within(dialog).findByText("Starts at once.");
});
