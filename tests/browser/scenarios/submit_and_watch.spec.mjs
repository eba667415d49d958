import {
  expect,
  freshName,
  jobFile,
  logIn,
  shoot,
  test,
  write,
} from "../visitor.mjs";

/** From the login to the last log line, all through the page. */
test("a job is submitted and watched to its last log line", async ({
  page,
}) => {
  await logIn(page);
  await page.locator("a[aria-keyshortcuts=n]").click();

  const name = freshName("watched");
  const command = `sh -c 'for i in $(seq 1 12); do echo "rank $RANK step $i"; sleep 1.5; done'`;
  await write(page, jobFile({ name, command, gpus: 2, tasks: 2 }));
  await page.keyboard.press("Control+Enter");
  await page.getByText("No problems found").waitFor();
  await page.getByText("asks default for 2 tasks with 4 GPUs in all").waitFor();
  await page.getByRole("button", { name: "Submit" }).click();

  await page.getByRole("heading", { name }).waitFor();
  await page.getByRole("link", { name: "Logs", exact: true }).click();
  const log = page.getByRole("log");
  await log
    .getByText("rank 0 step 1", { exact: true })
    .waitFor({ timeout: 60_000 });
  const early = await page.getByText("Succeeded", { exact: true }).count();
  expect(
    early === 0,
    "the first line came only when the job was over",
  ).toBeTruthy();
  await log.getByText("rank 0 step 12", { exact: true }).waitFor();
  await log.getByText("rank 1 step 12", { exact: true }).waitFor();

  // No one reloads: state and end of the log come by themselves.
  await page.getByText("Succeeded", { exact: true }).waitFor();
  await page.getByText("End of log").waitFor();
  await shoot(page, "logs");

  const numbers = await log.getByText(/^rank 0 step \d+$/).allTextContents();
  const steps = numbers.map((line) => Number(line.split(" ").at(-1)));
  const whole = Array.from({ length: 12 }, (_, n) => n + 1);
  expect(
    String(steps) === String(whole),
    `lines are missing or doubled: ${steps}`,
  ).toBeTruthy();

  await page.getByRole("link", { name: /^Tasks/ }).click();
  await page.getByRole("table", { name: "Tasks" }).waitFor();
  const rows = await page.getByRole("row", { name: /worker-\d.*A100/ }).count();
  expect(
    rows === 2,
    `${rows} tasks with their node and GPUs, not 2`,
  ).toBeTruthy();
  await shoot(page, "tasks");
  await page.getByRole("link", { name: "Events" }).click();
  await page.getByText("job.succeeded").waitFor();

  await page.getByRole("button", { name: "Clone" }).click();
  await page.getByRole("menuitem", { name: "Edit and submit" }).click();
  await page
    .getByRole("textbox", { name: "Job file" })
    .getByText(`name: ${name}-2`)
    .waitFor();
});
