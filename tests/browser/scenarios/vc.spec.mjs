import {
  ask,
  expect,
  freshName,
  jobFile,
  logIn,
  shoot,
  test,
} from "../visitor.mjs";

/** The page of a virtual cluster shows a running and a waiting job in its cells, in its queue and
 * on its time line, and follows them without a reload. */
test("a virtual cluster shows its jobs in cells queue and time line", async ({
  page,
}) => {
  await logIn(page);
  await page.getByRole("link", { name: "Virtual clusters" }).click();
  await page.getByRole("link", { name: "default", exact: true }).click();
  await page.getByRole("tree").waitFor();
  const gpus = await page.locator('[role="tree"] [data-state]').count();
  expect(gpus === 16, `${gpus} GPUs are drawn, not 16`).toBeTruthy();

  const holds = await submit(page, { name: freshName("holds"), gpus: 8 });
  const busy = page.getByRole("treeitem", {
    name: new RegExp(`in use by ${holds.name}`),
  });
  await busy.first().waitFor();
  expect(
    (await busy.count()) === 8,
    "not all GPUs of the job are shown in use",
  ).toBeTruthy();
  await busy.first().hover();
  await page
    .getByRole("tooltip")
    .getByText(`In use by ${holds.name}`)
    .waitFor();
  await shoot(page, "vc-cells");
  await page.getByText("On the nodes", { exact: true }).click();
  await page
    .getByRole("treeitem", { name: /on node-\d: 8 of 8 GPUs in use/ })
    .waitFor();
  await busy.nth(7).waitFor();

  const tabs = page.getByRole("navigation", {
    name: "About this virtual cluster",
  });
  await tabs.getByRole("link", { name: "Queue" }).click();
  const waits = await submit(page, {
    name: freshName("waits"),
    gpus: 8,
    tasks: 2,
  });
  const row = page.getByRole("row", { name: new RegExp(waits.name) });
  await row.getByText(/needs/i).first().waitFor();
  const line = page.getByRole("region", { name: "Timeline" });
  await line.getByRole("link", { name: waits.name }).waitFor();
  await line.locator(`[data-bar="${holds.name}"]`).hover();
  await page
    .getByRole("tooltip")
    .getByText(/since \d/)
    .waitFor();
  await shoot(page, "vc-queue");

  // Nobody reloads: the waiting one starts when it can.
  await ask(page, "POST", `/jobs/${holds.id}/stop`);
  await page.getByText("No jobs are waiting").waitFor();
  await line
    .locator(`[data-bar="${waits.name}"][data-certainty="running"]`)
    .click();
  await page.getByRole("heading", { name: waits.name }).waitFor();
  await ask(page, "POST", `/jobs/${waits.id}/stop`);
  await page.getByText("Stopped", { exact: true }).first().waitFor();
});

function submit(page, job) {
  return ask(page, "POST", "/jobs", jobFile({ command: "sleep 600", ...job }));
}
