import {
  ask,
  expect,
  freshName,
  jobFile,
  logIn,
  shoot,
  test,
} from "../visitor.mjs";

const MEMORY = `echo 'MemoryError: Unable to allocate 9.00 GiB' >&2; exit 1`;

/** What the page says about a job that failed or waits, it also offers as a button. */
test("a failed job runs again with more memory and a retried one is given up", async ({
  page,
}) => {
  await logIn(page);
  const file = { gpus: 0, command: JSON.stringify(MEMORY) };
  const job = await ask(
    page,
    "POST",
    "/jobs",
    jobFile({ name: freshName("oom"), ...file }),
  );
  await page.goto(`/jobs/${job.id}`);
  const panel = page.getByRole("region", { name: "Why it failed" });
  await panel.getByRole("heading", { name: "Out of memory" }).waitFor();
  await shoot(page, "failed");
  await panel
    .getByRole("button", { name: "Run again with more memory" })
    .click();
  const dialog = page.getByRole("dialog", { name: /with more memory$/ });
  const memory = dialog.getByRole("textbox", { name: /^Memory of each task/ });
  const suggested = Number(await memory.inputValue());
  await shoot(page, "memory");
  await dialog.getByRole("button", { name: "Run again" }).click();
  await page.waitForURL((url) => !url.pathname.endsWith(job.id));
  const again = await ask(page, "GET", `/jobs/${page.url().split("/").pop()}`);
  expect(again.task_roles[0].memory_mb).toBe(suggested);

  const text = jobFile({
    name: freshName("gives-up"),
    gpus: 0,
    command: "'exit 3'",
  });
  const retried = await ask(
    page,
    "POST",
    "/jobs",
    `${text}jobRetryCount: 50\n`,
  );
  await page.goto(`/jobs/${retried.id}`);
  await page
    .getByRole("button", { name: "End the retries" })
    .click({ timeout: 90_000 });
  await shoot(page, "retried");
  const question = page.getByRole("dialog", { name: /^End the retries/ });
  await question.getByRole("button", { name: "End the retries" }).click();
  await page.locator("header").getByText("Failed").waitFor();
});

/** A job that runs is moved off its node, and given another rank while it waits. */
test("a running job moves to another node", async ({ page }) => {
  await logIn(page);
  const file = jobFile({
    name: freshName("moves"),
    gpus: 1,
    command: "sleep 600",
  });
  const job = await ask(page, "POST", "/jobs", file);
  await page.goto(`/jobs/${job.id}`);
  await page.getByRole("button", { name: "Move", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: /off a node$/ });
  const node = dialog.getByRole("combobox", { name: "Node" });
  await expect(node).not.toHaveValue("");
  const left = await node.inputValue();
  await shoot(page, "move");
  await dialog.getByRole("button", { name: "Move the job" }).click();
  await expect
    .poll(async () => (await attempt(page, job.id))?.index, { timeout: 60_000 })
    .toBe(2);
  expect((await attempt(page, job.id)).node).not.toBe(left);
  await ask(page, "POST", `/jobs/${job.id}/stop`);
});

async function attempt(page, id) {
  return (await ask(page, "GET", `/jobs/${id}/tasks`)).results[0].attempt;
}
