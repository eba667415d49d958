import {
  ask,
  axe,
  expect,
  freshName,
  jobFile,
  logIn,
  reach,
  shoot,
  test,
} from "../visitor.mjs";

/** Last lines and use by rank, and two attempts in two columns. */
test("the tasks of a job and its attempts are seen side by side", async ({
  page,
}) => {
  await logIn(page);
  const name = freshName("ranks");
  const command = `for i in 1 2 3; do echo "step $i of $PAI_TASK_INDEX"; done; sleep 900`;
  const job = await ask(
    page,
    "POST",
    "/jobs",
    jobFile({ name, command: `'${command}'`, gpus: 1, tasks: 3 }),
  );
  const fails = freshName("fails");
  const text = jobFile({
    name: fails,
    command: "'echo tried; exit 3'",
    gpus: 1,
  });
  const retried = await ask(page, "POST", "/jobs", `${text}jobRetryCount: 1\n`);
  await reach(page, job, "RUNNING");

  await page.goto(`/jobs/${job.id}?tab=logs`);
  await page.getByRole("link", { name: "By rank" }).click();
  const grid = page.getByRole("list", { name: "Last lines by rank" });
  await grid.getByText("step 3 of").nth(2).waitFor();
  await shoot(page, "ranks-logs");
  expect(await axe(page)).toEqual([]);
  await grid.getByRole("link", { name: "worker-1" }).click();
  await page.getByText("step 3 of 1").waitFor();

  await page.goto(`/jobs/${job.id}?tab=metrics`);
  const table = page.getByRole("region", { name: "Use by rank" });
  await table.getByRole("link", { name: "worker-2" }).waitFor();
  await page.waitForTimeout(3000);
  await shoot(page, "ranks-use");
  expect(await axe(page)).toEqual([]);

  await ask(page, "POST", `/jobs/${retried.id}/retry`).catch(() => null);
  await reach(page, retried, "FAILED");
  await page.goto(`/jobs/${retried.id}?tab=attempts`);
  await page.getByRole("link", { name: "Compare two attempts" }).click();
  const both = page.getByRole("region", { name: "Attempts side by side" });
  await both.getByRole("row", { name: /Mean GPU utilisation/ }).waitFor();
  await both
    .getByRole("row", { name: /Ends of tasks.*\(3\).*\(3\)/ })
    .waitFor();
  await shoot(page, "ranks-attempts");
  expect(await axe(page)).toEqual([]);

  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  await shoot(page, "ranks-attempts-phone");
  await page.goto(`/jobs/${job.id}?tab=logs&view=ranks`);
  await grid.getByText("step 3 of").first().waitFor();
  await shoot(page, "ranks-logs-phone");
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(390);
  await ask(page, "POST", `/jobs/${job.id}/stop`);
});
