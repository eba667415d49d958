import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { afterEach, expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { refusal, serve } from "@/test/server";
import { AlertRules } from "./AlertRules";

afterEach(() => vi.unstubAllGlobals());

const RULE = {
  id: "5f0c0f8e-0000-7000-8000-000000000001",
  name: "idle",
  kind: "idle_gpus",
  threshold: 5,
  for_minutes: 30,
  action: "notify",
  enabled: true,
  recipients: ["mei"],
};
const PATH = `PATCH /alert-rules/${RULE.id}`;

function draw(answers: Record<string, unknown>) {
  const requests = serve({
    "GET /alert-rules": { count: 1, next: null, previous: null, results: [RULE] },
    "GET /alerts": { count: 0, next: null, previous: null, results: [] },
    "GET /users": { count: 0, next: null, previous: null, results: [] },
    ...answers,
  });
  renderPage(<AlertRules />);
  return requests;
}

async function edit() {
  await userEvent.click(await screen.findByRole("button", { name: "Edit idle" }));
  return await screen.findByRole("dialog", { name: "Alert rule idle" });
}

test("a rule is changed with what it has, and its kind stays", async () => {
  const requests = draw({ [PATH]: { ...RULE, threshold: 10 } });
  const form = await edit();
  expect(within(form).getByRole("combobox", { name: "Fires when" })).toBeDisabled();
  const threshold = within(form).getByRole("textbox", { name: /Threshold/ });
  expect(threshold).toHaveValue("5");
  await userEvent.clear(threshold);
  await userEvent.type(threshold, "10");
  await userEvent.click(within(form).getByRole("button", { name: "Save" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const sent = requests.find((request) => request.method === "PATCH");
  expect(await sent?.json()).toEqual({
    name: "idle",
    threshold: 10,
    for_minutes: 30,
    action: "notify",
    recipients: ["mei"],
  });
});

test.each([
  ["threshold_invalid", "The threshold is 0 to 100 %.", { field: "threshold" }, /Threshold/],
  ["name_taken", "There is a rule named idle.", { name: "idle" }, "Name"],
  ["invalid", "Wrong.", { fields: { for_minutes: ["At most 10080."] } }, "For so many minutes"],
])("what is refused with %s stands at its field", async (code, message, details, label) => {
  draw({ [PATH]: () => refusal(400, code, message, details) });
  const form = await edit();
  await userEvent.click(within(form).getByRole("button", { name: "Save" }));
  const field = within(form).getByRole("textbox", { name: label });
  await waitFor(() => expect(field).toBeInvalid());
  const said = "fields" in details ? "At most 10080." : message;
  expect(field).toHaveAccessibleDescription(expect.stringContaining(said));
  expect(within(form).queryByRole("alert")).toBeNull();
});

test("another refusal stands below the fields", async () => {
  draw({ [PATH]: () => refusal(409, "conflict", "Someone else changed it.") });
  const form = await edit();
  await userEvent.click(within(form).getByRole("button", { name: "Save" }));
  expect(await within(form).findByRole("alert")).toHaveTextContent("Someone else changed it.");
});

test("axe finds nothing in the list and in the form", async () => {
  draw({});
  await edit();
  const found = await axe.run(document.body, {
    rules: { "color-contrast": { enabled: false }, region: { enabled: false } },
  });
  expect(found.violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
});

test("a lone sign or point is no threshold", async () => {
  const requests = draw({ [PATH]: RULE });
  const form = await edit();
  const threshold = within(form).getByRole("textbox", { name: /Threshold/ });
  await userEvent.clear(threshold);
  await userEvent.type(threshold, "-.{Enter}");
  expect(threshold).toBeInvalid();
  expect(requests.filter(({ method }) => method === "PATCH")).toHaveLength(0);
  await userEvent.tab();
  expect(threshold).toHaveValue("5");
});

test("a threshold with zeros at its end is sent with Enter", async () => {
  const requests = draw({ [PATH]: { ...RULE, threshold: 0.5 } });
  const form = await edit();
  const threshold = within(form).getByRole("textbox", { name: /Threshold/ });
  await userEvent.clear(threshold);
  await userEvent.type(threshold, "0.50{Enter}");
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const sent = requests.find((request) => request.method === "PATCH");
  expect(await sent?.json()).toMatchObject({ threshold: 0.5 });
});
