import {
  ask,
  freshName,
  jobFile,
  logIn,
  reach,
  shootBoth,
  test,
} from "../visitor.mjs";

/** An administrator asks when the jobs of now would start with another policy and more nodes. */
test("the jobs of now are simulated with another policy and more nodes", async ({
  page,
}) => {
  await logIn(page);
  const submit = (name, tasks) =>
    ask(
      page,
      "POST",
      "/jobs",
      jobFile({ name, command: "sleep 600", gpus: 8, tasks }),
    );
  const runs = await submit(freshName("runs"), 2);
  await reach(page, runs, "RUNNING");
  const name = freshName("waits");
  const waits = await submit(name, 1);
  await page.getByRole("link", { name: "Simulator" }).click();
  await page.getByRole("combobox", { name: "Jobs", exact: true }).click();
  await page.getByRole("option", { name: "that wait and run now" }).click();
  await page.getByRole("button", { name: /more or fewer nodes/ }).click();
  await page.getByRole("button", { name: /another quota/ }).click();
  await page.getByRole("combobox", { name: "What changes" }).last().click();
  await page.getByRole("option", { name: "quota of default" }).click();
  await shootBoth(page, "simulator-now-form");
  await page.getByRole("button", { name: "Simulate", exact: true }).click();
  await page.waitForURL(/\/simulator\/[0-9a-f-]{36}$/);
  const table = page.getByRole("table", {
    name: "Starts and ends of waiting jobs",
  });
  await table.waitFor({ timeout: 180_000 });
  await page
    .getByText(/^present, changed: .* earlier/)
    .first()
    .click();
  await page.getByRole("link", { name, exact: true }).first().waitFor();
  await shootBoth(page, "simulator-now-result");
  for (const job of [waits, runs])
    await ask(page, "POST", `/jobs/${job.id}/stop`);
});
