import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { VirtualCluster } from "@/api/types";
import { renderPage } from "@/test/render";
import { refusal, serve } from "@/test/server";
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
    {
      name: "drf",
      family: "share",
      description: "Shares. By user.",
      is_default: false,
      parameters: [weights],
    },
    {
      name: "priority_ageing",
      family: "order",
      description: "Priority.",
      is_default: true,
      parameters: [],
    },
    {
      name: "fifo",
      family: "order",
      description: "Submission.",
      is_default: false,
      parameters: [backfill],
    },
  ],
};
const read = {
  "GET /policies": policies,
  "GET /virtual-clusters": { results: [vc], next: null, previous: null },
  "GET /virtual-clusters/vision/limits": { limits: [] },
  "GET /virtual-clusters/vision/registry-credentials": { results: [], next: null, previous: null },
};

/** Of the order of the queue: the default image has such a button, too. */
async function save() {
  const buttons = await screen.findAllByRole("button", { name: "Save" });
  const enabled = buttons.find((button) => !button.hasAttribute("disabled"));
  if (enabled) await userEvent.click(enabled);
}

test("an administrator chooses the order of the queue", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({ ...read, "PATCH /virtual-clusters/vision": vc });
  renderPage(<SettingsTab vc={vc} admin={true} />);
  await userEvent.click(await screen.findByRole("combobox", { name: "Order of the queue" }));
  expect(screen.getByRole("option", { name: "drf Shares." })).toBeInTheDocument();
  const orders = screen.getByRole("group", { name: "Who is first" });
  await userEvent.click(within(orders).getByRole("option", { name: "fifo Submission." }));
  expect(requests.some((request) => request.method === "PATCH")).toBe(false);
  await save();
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
  await save();
  const patch = requests.find((request) => request.method === "PATCH");
  expect(await patch?.json()).toEqual({
    policy: { name: "drf", parameters: { weights: "ann:2" } },
  });
});

const job = { owner: "ann", state: "waiting", old_end_at: 0, new_end_at: 0 };
const side = { finished: 3, avg_wait_s: 14_400, p95_wait_s: 39_600, last_end_at: 1_795_000_000 };
const forecast = {
  at: 1_794_900_000,
  running: 1,
  waiting: 2,
  recent: 0,
  unknown_durations: 0,
  opportunistic: 0,
  never_end: 0,
  sides: [
    { ...side, policy: "priority_ageing" },
    { ...side, policy: "fifo", avg_wait_s: 3600 },
  ],
  gaining: 1,
  losing: 1,
  gains: [{ ...job, id: "a", name: "short", by_s: -36_000 }],
  losses: [{ ...job, id: "b", name: "long", by_s: 3600 }],
  hidden: 0,
};

test("a policy says what it must know of jobs, and of how many it does not", async () => {
  document.cookie = "skep_csrf=x";
  const checked = {
    jobs: 40,
    lacking: [
      {
        ...{ fact: "duration", jobs: 12, examples: [{ id: "a", name: "bert" }] },
        ...{ ended_jobs: 30, ended_share: 0.25 },
      },
    ],
    otherwise: "It starts behind those whose duration is known.",
    assumed: [
      {
        ...{ fact: "restart", jobs: 0, examples: [], ended_jobs: 9, ended_share: 0.1 },
        otherwise: "It is preempted as if a restart cost nothing.",
      },
    ],
    ended: { days: 30, jobs: 200, gpu_hours: 1000 },
    preempts: true,
    not_preemptible: 3,
    resizes: false,
    elastic: 0,
  };
  const requests = serve({ ...read, "POST /virtual-clusters/vision/policy/check": checked });
  renderPage(<SettingsTab vc={vc} admin={true} />);
  const list = await screen.findByRole("list", { name: "What it asks of jobs" });
  expect(list).toHaveTextContent("It does not know it of 12 of 40 jobs here, such as bert.");
  expect(list).toHaveTextContent("unknown of 30 of 200 jobs that ended (25% of the GPU time)");
  expect(list).toHaveTextContent(
    "It decides by what a restart costs, as measured, and knows it of all 40 jobs here. " +
      "Of the last 30 days: unknown of 9 of 200 jobs that ended (10% of the GPU time). " +
      "Where that is not known, the job is preempted as if a restart cost nothing.",
  );
  expect(list).toHaveTextContent("It starts behind those whose duration is known.");
  expect(list).toHaveTextContent("3 jobs of 40 here never do");
  const asked = requests.find((request) => request.url.endsWith("/policy/check"));
  expect(await asked?.json()).toEqual(vc.policy);
});

test("another policy is forecast before it is saved", async () => {
  document.cookie = "skep_csrf=x";
  const simulation = { id: "s", state: "SUCCEEDED", error: null, runs: [], forecast };
  const requests = serve({
    ...read,
    "POST /virtual-clusters/vision/policy/forecast": simulation,
    "GET /simulations/s": simulation,
  });
  renderPage(<SettingsTab vc={vc} admin={true} />);
  await userEvent.click(await screen.findByRole("combobox", { name: "Order of the queue" }));
  await userEvent.click(await screen.findByRole("option", { name: /^fifo/ }));
  await userEvent.click(await screen.findByRole("button", { name: "Forecast" }));
  expect(await screen.findByRole("row", { name: /^fifo 1h/ })).toBeVisible();
  expect(screen.getByRole("row", { name: /short ann 10h/ })).toBeVisible();
  expect(screen.getByRole("row", { name: /long ann 1h/ })).toBeVisible();
  expect(requests.some((request) => request.method === "PATCH")).toBe(false);
});

test("policies that could not be read are said, and read again", async () => {
  let away = true;
  serve({
    ...read,
    "GET /policies": () =>
      away ? refusal(503, "database_away", "The database is away.") : policies,
  });
  renderPage(<SettingsTab vc={{ ...vc, may_manage: false }} admin={false} />);
  const part = (await screen.findByRole("heading", { name: "Order of the queue" })).parentElement;
  const note = await within(part as HTMLElement).findByRole("alert");
  expect(note).toHaveTextContent("The list of policies could not be read: The database is away.");
  away = false;
  await userEvent.click(within(note).getByRole("button", { name: "Try again" }));
  expect(await screen.findByRole("combobox", { name: "Order of the queue" })).toBeVisible();
});

test("a lone sign is no value of a policy's parameter", async () => {
  const ageing = { ...backfill, name: "ageing_s", type: "integer", default: 3600, choices: [] };
  const [, priority] = policies.policies;
  serve({ ...read, "GET /policies": { policies: [{ ...priority, parameters: [ageing] }] } });
  renderPage(<SettingsTab vc={vc} admin={true} />);
  const field = await screen.findByRole("textbox", { name: "Ageing (seconds)" });
  await userEvent.clear(field);
  await userEvent.type(field, "-");
  await userEvent.tab();
  expect(screen.queryByRole("group", { name: "Forecast" })).toBeNull();
});
