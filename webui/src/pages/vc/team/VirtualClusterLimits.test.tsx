import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { refusal, serve } from "@/test/server";
import { VirtualClusterLimits } from "./VirtualClusterLimits";

const gpusPerUser = {
  name: "gpus_per_user",
  value: 8,
  default: 1_000_000,
  minimum: 1,
  maximum: 1_000_000,
  unit: "GPUs",
  description: "GPUs that the jobs of one user may hold in it at a time.",
  is_set: true,
  is_open: true,
  set_by: "vc_admin",
  effect: "wait",
  may_set: true,
  used: 6,
};
const duration = {
  ...gpusPerUser,
  name: "job_duration_s",
  value: 315_360_000,
  default: 315_360_000,
  maximum: 315_360_000,
  unit: "seconds",
  description: "How long an attempt of a job may run.",
  is_set: false,
  effect: "submit",
  used: null,
};
const tasks = { ...duration, name: "tasks", value: 5, is_open: false, unit: "tasks", used: 0 };
const path = "/virtual-clusters/vision/limits";

test("limits are shown by what happens beyond them, with their use", async () => {
  serve({ [`GET ${path}`]: { limits: [gpusPerUser, duration, { ...tasks, may_set: false }] } });
  renderPage(<VirtualClusterLimits name="vision" />);
  const waits = await screen.findByRole("table", { name: /^Jobs above these limits wait/ });
  expect(waits).toHaveTextContent("8 GPUs");
  expect(waits).toHaveTextContent("Highest use now: 6 GPUs.");
  const refused = screen.getByRole("table", { name: /refused when they are submitted/ });
  expect(refused).toHaveTextContent("no limit");
  expect(refused).toHaveTextContent("Set by administrators.");
  expect(within(refused).getAllByRole("button")).toHaveLength(1);
});

test("a VC admin sets a limit", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({
    [`GET ${path}`]: { limits: [gpusPerUser] },
    [`PUT ${path}/gpus_per_user`]: { ...gpusPerUser, value: 4 },
  });
  renderPage(<VirtualClusterLimits name="vision" />);
  await userEvent.click(await screen.findByRole("button", { name: "Change GPUs per user" }));
  const field = screen.getByRole("textbox", { name: /Value/ });
  await userEvent.clear(field);
  await userEvent.type(field, "4");
  await userEvent.click(screen.getByRole("button", { name: "Set" }));
  const put = requests.find((request) => request.method === "PUT");
  expect(await put?.json()).toEqual({ value: 4 });
});

test("an emptied limit is not set to 0", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({
    [`GET ${path}`]: { limits: [gpusPerUser] },
    [`PUT ${path}/gpus_per_user`]: { ...gpusPerUser, value: 0 },
  });
  renderPage(<VirtualClusterLimits name="vision" />);
  await userEvent.click(await screen.findByRole("button", { name: "Change GPUs per user" }));
  const field = screen.getByRole("textbox", { name: /Value/ });
  await userEvent.clear(field);
  await userEvent.click(screen.getByRole("button", { name: "Set" }));
  expect(field).toBeInvalid();
  expect(requests.filter((request) => request.method === "PUT")).toHaveLength(0);
});

test("limits that could not be read are said, and read again", async () => {
  let away = true;
  serve({
    [`GET ${path}`]: () =>
      away ? refusal(503, "database_away", "The database is away.") : { limits: [duration] },
  });
  renderPage(<VirtualClusterLimits name="vision" />);
  expect(await screen.findByRole("alert")).toHaveTextContent("The database is away.");
  expect(screen.getByRole("heading", { name: "Limits" })).toBeVisible();
  away = false;
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(
    await screen.findByRole("table", { name: /refused when they are submitted/ }),
  ).toBeVisible();
});
