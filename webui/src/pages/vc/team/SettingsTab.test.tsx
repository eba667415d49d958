import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { VirtualCluster } from "@/api/types";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { SettingsTab } from "./SettingsTab";

const vc: VirtualCluster = {
  name: "vision",
  description: "",
  quotas: { A100: 8 },
  cells: [],
  pins: [],
  used: {},
  role: null,
  members: 1,
  job_visibility: "owner",
  default_image: "",
  policy: { name: "priority_ageing", parameters: {} },
  may_manage: true,
};
const backfill = {
  name: "backfill",
  type: "string",
  default: "block",
  description: "What happens behind a job that does not fit.",
  minimum: null,
  maximum: null,
  choices: ["block", "skip"],
};
const weights = {
  ...backfill,
  name: "weights",
  default: "",
  description: "Weights of users such as `ann:2;bob:0.5`.",
  choices: [],
};
const policies = {
  policies: [
    { name: "drf", description: "Shares.", is_default: false, parameters: [weights] },
    { name: "priority_ageing", description: "Priority.", is_default: true, parameters: [] },
    { name: "fifo", description: "Submission.", is_default: false, parameters: [backfill] },
  ],
};
const read = {
  "GET /policies": policies,
  "GET /virtual-clusters": { results: [vc], next: null, previous: null },
  "GET /virtual-clusters/vision/limits": { limits: [] },
  "GET /virtual-clusters/vision/registry-credentials": { results: [], next: null, previous: null },
};

test("an administrator chooses the order of the queue", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({ ...read, "PATCH /virtual-clusters/vision": vc });
  renderPage(<SettingsTab vc={vc} admin={true} />);
  await userEvent.click(await screen.findByRole("combobox", { name: "Order of the queue" }));
  await userEvent.click(await screen.findByRole("option", { name: "fifo" }));
  const patch = requests.find((request) => request.method === "PATCH");
  expect(await patch?.json()).toEqual({ policy: { name: "fifo", parameters: {} } });
});

test("the parameters of the policy are shown, and only administrators change them", async () => {
  serve(read);
  const strict = { ...vc, policy: { name: "fifo", parameters: { backfill: "skip" } } };
  renderPage(<SettingsTab vc={strict} admin={false} />);
  const field = await screen.findByRole("combobox", { name: "Backfill" });
  expect(field).toHaveValue("skip");
  expect(field).toBeDisabled();
});

test("a parameter that is a text is typed", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({ ...read, "PATCH /virtual-clusters/vision": vc });
  const shared = { ...vc, policy: { name: "drf", parameters: {} } };
  renderPage(<SettingsTab vc={shared} admin={true} />);
  await userEvent.type(await screen.findByRole("textbox", { name: "Weights" }), "ann:2");
  await userEvent.tab();
  const patch = requests.find((request) => request.method === "PATCH");
  expect(await patch?.json()).toEqual({
    policy: { name: "drf", parameters: { weights: "ann:2" } },
  });
});
