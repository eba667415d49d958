import {
  ask,
  expect,
  freshName,
  jobFile,
  logIn,
  reach,
  shootBoth,
  test,
} from "../visitor.mjs";

/** An administrator asks what another policy and more GPUs would do, sees how far it is, finds the
 * answer at its own address, and simulates what the cluster really ran. */
test("policies are compared on made-up jobs and on history", async ({
  page,
}) => {
  await logIn(page);
  const ran = await ask(
    page,
    "POST",
    "/jobs",
    jobFile({ name: freshName("ran"), command: "sleep 1", gpus: 2 }),
  );
  await page.getByRole("link", { name: "Simulator" }).click();
  await page.getByRole("combobox", { name: "Jobs", exact: true }).click();
  await page.getByRole("option", { name: "made up" }).click();
  await page.getByLabel("Number of jobs").fill("60");
  await page.getByRole("button", { name: /had more or fewer GPUs/ }).click();
  await page.getByLabel("GPUs more, or fewer").fill("8");
  await shootBoth(page, "simulator-form");
  await page.getByRole("button", { name: "Simulate", exact: true }).click();

  await page.waitForURL(/\/simulator\/[0-9a-f-]{36}$/);
  const address = page.url();
  const table = page.getByRole("table", { name: "Figures of each policy" });
  await table.waitFor({ timeout: 180_000 });
  for (const run of ["priority ageing, as it is", "srtf, changed"])
    await table.getByText(run, { exact: true }).waitFor();
  await page
    .getByRole("figure")
    .filter({ hasText: "Jobs that wait" })
    .waitFor();
  await page.getByRole("img", { name: /GPUs in use/ }).scrollIntoViewIfNeeded();
  await shootBoth(page, "simulator-result");

  await reach(page, ran, "SUCCEEDED");
  await page.getByRole("link", { name: "Simulator" }).first().click();
  await page
    .getByRole("table", { name: "Earlier simulations" })
    .getByRole("link", { name: "priority ageing, srtf" })
    .first()
    .waitFor();
  await page.getByRole("button", { name: "Simulate", exact: true }).click();
  await page.waitForURL(
    (url) =>
      /\/simulator\/[0-9a-f-]{36}$/.test(url.href) && url.href !== address,
  );
  await table.getByText("srtf", { exact: true }).waitFor({ timeout: 60_000 });

  await page.goto(address);
  await table.getByText("srtf, changed", { exact: true }).waitFor();
  const overflow = await page.evaluate(
    () => document.documentElement.scrollWidth > window.innerWidth,
  );
  expect(overflow).toBe(false);
});
