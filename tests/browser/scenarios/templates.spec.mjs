import {
  ask,
  axe,
  expect,
  freshName,
  jobFile,
  logIn,
  shoot,
  test,
  write,
} from "../visitor.mjs";

/** A template is found, starred and used with other parameters, and one is made of a job. */
test("templates are found, starred, used, published and hidden", async ({
  page,
}) => {
  await logIn(page);
  await page.getByRole("link", { name: "Templates" }).click();
  const list = page.getByRole("list", { name: "Templates" });
  await list.getByRole("link", { name: "Hyperparameter sweep" }).waitFor();
  expect(await list.getByRole("listitem").count()).toBeGreaterThanOrEqual(10);
  await shoot(page, "templates");
  expect(await axe(page)).toEqual([]);

  await page
    .getByRole("searchbox", { name: "Search templates" })
    .fill("smallest job");
  await page
    .getByRole("link", { name: "Hyperparameter sweep" })
    .waitFor({ state: "hidden" });
  await page.getByRole("link", { name: "Hello", exact: true }).click();
  await page.getByRole("button", { name: /^Star hello/ }).click();
  await page
    .getByRole("button", { name: /^Take back the star of hello/ })
    .waitFor();
  await page.getByLabel("steps").fill("7");
  await page.getByRole("textbox", { name: "Job file of Hello" }).waitFor();
  await shoot(page, "template");
  expect(await axe(page)).toEqual([]);
  await page.getByRole("button", { name: "Check and submit" }).click();
  const dialog = page.getByRole("dialog", { name: "Submit Hello" });
  await dialog.getByText("No problems found").waitFor();
  await dialog.getByRole("button", { name: "Submit" }).isEnabled();
  await shoot(page, "template-submit");
  expect(await axe(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await dialog.waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Use this template" }).click();
  const editor = page.getByRole("textbox", { name: "Job file" });
  await editor.getByText("steps: 7").waitFor();
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await page.getByText("No problems found").waitFor();

  const job = freshName("to-share");
  await write(page, jobFile({ name: job, command: "echo hello", gpus: 0 }));
  await page.getByRole("button", { name: "Submit" }).click();
  await page.getByRole("heading", { name: job }).waitFor();
  await page.getByRole("button", { name: "Clone" }).click();
  await page.getByRole("menuitem", { name: /Save as template/ }).click();
  const title = freshName("Says hello");
  await page.getByLabel("Title").fill(title);
  await page.getByLabel("Description").fill("Prints one line.");
  await shoot(page, "template-new");
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByRole("heading", { name: title }).waitFor();
  await page.getByRole("button", { name: "Hide" }).click();
  await page.getByRole("button", { name: "Show again" }).waitFor();
  await page.getByRole("button", { name: "Delete" }).click();
  await page
    .getByRole("dialog")
    .getByRole("button", { name: "Delete" })
    .click();
  await list.waitFor();

  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  await shoot(page, "templates-phone");
  await page.goto("/templates/hello");
  await page.getByRole("button", { name: "Use this template" }).waitFor();
  await shoot(page, "template-phone");
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(390);
  await ask(page, "DELETE", "/templates/hello/star");
});
