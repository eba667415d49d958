import { expect, freshName, jobFile, logIn, test, write } from "../visitor.mjs";

/** The web server dies while a log is followed: the page says so, comes back by itself, and shows
 * every line once. */
test("a page outlives its server and misses no line", async ({ page }) => {
  await logIn(page);
  await page.goto("/jobs/new");
  const name = freshName("outlives");
  const command = `sh -c 'for i in $(seq 1 60); do echo "line $i"; sleep 0.25; done'`;
  await write(page, jobFile({ name, command }));
  await page.getByRole("button", { name: "Submit" }).click();
  await page.getByRole("heading", { name }).waitFor();
  await page.getByRole("link", { name: "Logs", exact: true }).click();
  const log = page.getByRole("log");
  await log.getByText("line 3", { exact: true }).waitFor({ timeout: 60_000 });

  process.kill(Number(process.env.SKEP_WEB_PID), "SIGKILL");
  await page.getByRole("img", { name: /^Not live|^Connecting/ }).waitFor();
  await page.getByRole("img", { name: /^Live/ }).waitFor({ timeout: 60_000 });

  await log.getByText("line 60", { exact: true }).waitFor({ timeout: 60_000 });
  await page.getByText("Succeeded", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Start" }).click();
  await log.getByText("line 1", { exact: true }).waitFor();
  await page.setViewportSize({ width: 1440, height: 2000 });
  await page.waitForFunction(
    () => document.querySelectorAll("[role=log] [data-stream]").length >= 60,
  );
  const lines = await log.getByText(/^line \d+$/).allTextContents();
  const whole = Array.from({ length: 60 }, (_, n) => `line ${n + 1}`);
  expect(
    String(lines) === String(whole),
    `lines are missing or doubled: ${lines}`,
  ).toBeTruthy();
});
