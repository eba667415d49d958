import {
  ask,
  expect,
  freshName,
  jobFile,
  logIn,
  shootBoth,
  test,
} from "../visitor.mjs";

/** An administrator sees what another policy would do to the queue, and does not save it. */
test("a policy is forecast before it is saved", async ({ page }) => {
  await logIn(page);
  for (const name of ["long", "short"])
    await ask(
      page,
      "POST",
      "/jobs",
      jobFile({ name: freshName(name), command: "sleep 2", gpus: 2 }),
    );
  const { results } = await ask(page, "GET", "/virtual-clusters");
  const vc =
    results.find(({ used }) => Object.keys(used).length > 0) ?? results[0];
  await page.goto(`/virtual-clusters/${vc.name}?tab=settings`);
  await page
    .getByRole("combobox", { name: "Order of the queue", exact: true })
    .click();
  await page.getByRole("option", { name: /^srtf / }).click();
  await page.getByRole("button", { name: "Forecast" }).click();
  const section = page.getByRole("region", { name: "Forecast" });
  await section
    .getByRole("row", { name: /^srtf/ })
    .or(section.getByRole("alert"))
    .waitFor({ timeout: 120_000 });
  await section.scrollIntoViewIfNeeded();
  await shootBoth(page, "policy-forecast");
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  const after = await ask(page, "GET", `/virtual-clusters/${vc.name}`);
  expect(after.policy).toEqual(vc.policy);
});
