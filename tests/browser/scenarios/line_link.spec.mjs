import { ask, expect, freshName, jobFile, logIn, test } from "../visitor.mjs";

/** A click beside a line of the merged log, or a key, puts the line into the address, and that
 * address opens the log at the line, lit up, for another visitor, too. */
test("finding U30: a line of a log has an address", async ({
  page,
  browse,
}) => {
  await logIn(page);
  const job = await ask(
    page,
    "POST",
    "/jobs",
    jobFile({
      name: freshName("lines"),
      tasks: 2,
      command:
        "'for n in $(seq 1 400); do echo \"line $n of $PAI_TASK_INDEX\"; done'",
    }),
  );
  await page.goto(`/jobs/${job.id}?tab=logs`);
  await page.getByText("End of log").waitFor();
  await page.getByRole("button", { name: "Start", exact: true }).click();
  const log = page.getByRole("log");
  const line = log.locator("[data-stream]").nth(7);
  const text = await line.innerText();
  await line.hover();
  await line.getByRole("button", { name: "Link to this line" }).click();
  await page.waitForURL(/line=/);
  await lit(page, text);

  const next = await nextByKeys(page, log.locator("[data-stream]").nth(8));

  const address = page.url();
  await browse(async (other) => {
    await logIn(other);
    await other.goto(address);
    await lit(other, next);
  });
});

/** The keyboard alone: the tab key reaches the link of the line that is lit up, the arrow keys go on
 * from there. Returns the text of the line below, which is then the one of the address. */
async function nextByKeys(page, below) {
  const before = page.url();
  const text = await below.innerText();
  await page.getByRole("log").focus();
  await page.keyboard.press("Tab");
  await page.keyboard.press("ArrowDown");
  await expect(
    below.getByRole("button", { name: "Link to this line" }),
  ).toBeFocused();
  for (let lines = 0; lines < 3; lines += 1)
    await page.keyboard.press("PageDown");
  await expect(
    below.getByRole("button", { name: "Link to this line" }),
  ).not.toBeFocused();
  for (let lines = 0; lines < 3; lines += 1)
    await page.keyboard.press("PageUp");
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.href !== before);
  await lit(page, text);
  return text;
}

async function lit(page, text) {
  const line = page.getByRole("log").locator("[data-current]");
  await line.waitFor();
  expect(await line.innerText()).toBe(text);
  await expect(line).toBeInViewport();
}
