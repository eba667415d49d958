import { ask, freshName, jobFile, logIn, shoot, test } from "../visitor.mjs";

/** A shell in a running task: typing, pasting, a new size, and the exit code at the end. */
test("a shell in a running task takes keys sizes and tells its exit", async ({
  page,
}) => {
  await logIn(page);
  const text = jobFile({
    name: freshName("shell"),
    command: "sleep 600",
    tasks: 2,
  });
  const job = await ask(page, "POST", "/jobs", text);
  await page.goto(`/jobs/${job.id}`);
  await page.getByRole("link", { name: "Terminal of worker-1" }).click();
  await page.getByText(/^Shell on /).waitFor();

  const screen = page.locator(".xterm-rows");
  await page.keyboard.type("echo task $PAI_CURRENT_TASK_ROLE_NAME $RANK\n");
  await screen.getByText("task worker 1", { exact: true }).waitFor();
  await paste(page, "echo $((6 * 7)) pasted\n");
  await screen.getByText("42 pasted", { exact: true }).waitFor();

  await page.setViewportSize({ width: 1000, height: 700 });
  await page.keyboard.type("\n");
  await page.keyboard.type("stty size\n");
  const rows = await page.locator(".xterm-rows > div").count();
  await screen.getByText(new RegExp(`^${rows} \\d+$`)).waitFor();
  await shoot(page, "terminal");

  await page.keyboard.type("exit 3\n");
  await page.getByText("The shell ended with code 3.").waitFor();
  await page.getByRole("button", { name: "New shell" }).click();
  await page.getByText(/^Shell on /).waitFor();
  await ask(page, "POST", `/jobs/${job.id}/stop`);
  await page
    .getByText(/^The shell ended|connection was lost|not running/)
    .waitFor();
});

function paste(page, text) {
  return page.locator(".xterm-helper-textarea").evaluate((area, text) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", text);
    area.dispatchEvent(
      new ClipboardEvent("paste", { clipboardData, bubbles: true }),
    );
  }, text);
}
