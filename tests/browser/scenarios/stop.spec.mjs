import { freshName, jobFile, logIn, test, write } from "../visitor.mjs";

/** A running job is stopped from its page, and a waiting one from the list. */
test("running and waiting jobs are stopped", async ({ page }) => {
  await logIn(page);
  const running = await submit(page, {
    name: freshName("endless"),
    command: "sleep 600",
  });
  await page
    .getByText("Running", { exact: true })
    .first()
    .waitFor({ timeout: 60_000 });
  await page.getByRole("button", { name: "Stop" }).click();
  const dialog = page.getByRole("dialog", { name: `Stop ${running}?` });
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await dialog.waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Stop" }).click();
  await dialog.getByRole("button", { name: "Stop the job" }).click();
  await page
    .getByText("Stopped", { exact: true })
    .first()
    .waitFor({ timeout: 60_000 });

  const size = { gpus: 8, tasks: 2 };
  const holder = await submit(page, {
    name: freshName("holds"),
    command: "sleep 600",
    ...size,
  });
  await page
    .getByText("Running", { exact: true })
    .first()
    .waitFor({ timeout: 60_000 });
  const waiting = await submit(page, {
    name: freshName("waits"),
    command: "sleep 0",
    ...size,
  });
  await page.goto("/jobs");
  const row = page.getByRole("row", {
    name: new RegExp(`Waiting ${waiting}.*Needs 2 nodes of 8`),
  });
  await row.waitFor();
  await stopFromList(page, waiting);
  await page
    .getByRole("row", { name: new RegExp(`Stopped ${waiting}`) })
    .waitFor();
  await stopFromList(page, holder);
  await page
    .getByRole("row", { name: new RegExp(`Stopped ${holder}`) })
    .waitFor({ timeout: 60_000 });
});

async function submit(page, job) {
  await page.goto("/jobs/new");
  await write(page, jobFile(job));
  await page.getByRole("button", { name: "Submit" }).click();
  await page.getByRole("heading", { name: job.name }).waitFor();
  return job.name;
}

async function stopFromList(page, name) {
  await page.getByRole("button", { name: `Stop ${name}` }).click();
  await page.getByRole("button", { name: "Stop the job" }).click();
}
