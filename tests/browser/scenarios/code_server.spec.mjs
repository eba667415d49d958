import {
  ask,
  expect,
  freshName,
  logIn,
  settings,
  shoot,
  test,
} from "../visitor.mjs";

const PASSWORD = "many-busy-bees";

/** VS Code in the browser from the button to a file that a command in its terminal wrote. Nobody else
 * gets to it. */
test("a command in the terminal of VS Code writes a file that it opens", async ({
  page,
  browse,
}) => {
  test.setTimeout(300_000);
  await logIn(page);
  await page.goto("/apps");
  await page.getByRole("button", { name: "New notebook" }).click();
  const form = page.getByRole("dialog");
  await form.getByLabel("Type").click();
  await page.getByRole("option", { name: "VS Code (code-server)" }).click();
  await form.getByLabel("Image").fill(settings.image);
  await form.getByRole("button", { name: "Start" }).click();
  const row = page.getByRole("row").filter({ hasText: "code-server-" });
  await expect(row).toContainText("ready", { timeout: 120_000 });

  const [editor] = await Promise.all([
    page.context().waitForEvent("page"),
    row.getByRole("link", { name: /^Open/ }).click(),
  ]);
  await editor.locator(".monaco-workbench").waitFor({ timeout: 120_000 });
  const trust = editor.getByRole("button", {
    name: "Yes, I trust the authors",
  });
  await trust.click({ timeout: 60_000 });
  await editor.keyboard.press("Control+Backquote");
  const terminal = editor.locator(".terminal.xterm").first();
  await terminal.waitFor({ timeout: 60_000 });
  await expect(async () => {
    await terminal.click();
    await editor.keyboard.type(
      'echo "the answer is $((6 * 7))" > answer.txt\n',
    );
    const file = editor.getByRole("treeitem", { name: /answer\.txt/ });
    await file.click({ timeout: 10_000 });
  }).toPass({ timeout: 90_000 });
  const text = editor.locator(".view-lines").first();
  await expect(text).toContainText(/the.answer.is.42/, { timeout: 30_000 });
  await shoot(editor, "code-server");
  await row.getByRole("link", { name: /^code-server-/ }).click();
  const id = new URL(page.url()).pathname.split("/").at(-1);

  const user = freshName("other");
  await ask(page, "POST", "/users", { username: user, password: PASSWORD });
  await browse(async (other) => {
    await logIn(other, { user, password: PASSWORD });
    const foreign = await other.context().newPage();
    await foreign.goto(editor.url());
    await foreign.getByRole("heading", { name: "No such app" }).waitFor();
  });
  await ask(page, "POST", `/jobs/${id}/stop`);
});
