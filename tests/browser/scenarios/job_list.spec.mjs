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

/** The list is filtered by cause and time, the filters are kept as a view, and rows are changed
 * together. */
test("jobs are found by cause and time, and changed together", async ({
  page,
}) => {
  await logIn(page);
  const fails = freshName("fails");
  const names = [freshName("one"), freshName("two")];
  const command = "no-such-program";
  const failed = await ask(
    page,
    "POST",
    "/jobs",
    jobFile({ name: fails, command, gpus: 0 }),
  );
  const others = [];
  for (const name of names)
    others.push(
      await ask(
        page,
        "POST",
        "/jobs",
        jobFile({ name, command: "sleep 900", gpus: 0 }),
      ),
    );
  await reach(page, failed, "FAILED");

  await page.goto("/jobs");
  await page.getByRole("link", { name: fails }).waitFor();
  const { diagnosis } = await ask(page, "GET", `/jobs/${failed.id}`);
  await page.getByRole("combobox", { name: "Cause of failure" }).click();
  await page
    .getByRole("option", { name: diagnosis.category, exact: true })
    .click();
  await page.getByRole("link", { name: names[0] }).waitFor({ state: "hidden" });
  await page.getByRole("link", { name: fails }).waitFor();
  await page.getByRole("button", { name: "Submitted: Any time" }).click();
  await page.getByLabel("From", { exact: true }).focus();
  await page.keyboard.type("11232026", { delay: 50 });
  await page.waitForURL(
    (url) => url.searchParams.get("since") === "2026-11-23",
  );
  await page.getByText("7 days", { exact: true }).click();
  await shoot(page, "job-list-time");
  await page.keyboard.press("Escape");
  expect(new URL(page.url()).searchParams.get("since")).toBe("7d");

  await page.getByRole("button", { name: "Views" }).click();
  await page.getByRole("button", { name: "Save the present filters" }).click();
  const view = freshName("Broken commands");
  await page.getByRole("textbox", { name: "Name" }).fill(view);
  await page.getByRole("dialog").getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: view, exact: true }).waitFor();

  await page.goto("/jobs");
  await page.getByRole("button", { name: "Views" }).click();
  await shoot(page, "job-list-views");
  expect(await axe(page)).toEqual([]);
  await page.getByRole("link", { name: view }).click();
  await page.getByRole("link", { name: names[0] }).waitFor({ state: "hidden" });
  await page.getByRole("link", { name: fails }).waitFor();
  await page.getByRole("button", { name: view, exact: true }).click();
  await page.getByRole("button", { name: `Delete the view ${view}` }).click();
  await page.getByText("A saved view keeps filters").waitFor();

  await page.goto("/jobs");
  for (const name of names)
    await page.getByRole("checkbox", { name: `Select ${name}` }).check();
  await page.getByRole("button", { name: "Tags" }).click();
  await page.getByLabel("Tags to add").fill("sweep best");
  await shoot(page, "job-list-tags");
  await page.getByRole("button", { name: "Change" }).click();
  await page.getByText("The tags of 2 jobs changed").waitFor();
  for (const name of names)
    await page.getByRole("checkbox", { name: `Select ${name}` }).check();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("button", { name: "Stop 2 jobs" }).click();
  await page.getByText("2 jobs stopped").waitFor();
  for (const job of others) {
    await reach(page, job, "STOPPED");
    expect((await ask(page, "GET", `/jobs/${job.id}`)).tags).toEqual([
      "sweep",
      "best",
    ]);
  }

  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  await shoot(page, "job-list-phone");
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(390);
});
