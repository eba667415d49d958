import {
  ask,
  axe,
  expect,
  freshName,
  jobFile,
  logIn,
  settings,
  shoot,
  test,
  write,
} from "../visitor.mjs";

/** The form and the text are two views of one job file: neither loses what the other wrote. */
test("a job is written in a form and in its text", async ({ page }) => {
  await logIn(page);
  await page.goto("/jobs/new");
  const name = freshName("formed");
  const text = jobFile({ name: "draft", command: "sleep 0", gpus: 1 });
  await write(page, `# of the spring runs\n${text}`);
  await page.getByRole("button", { name: "Form", exact: true }).click();
  const form = page.getByRole("region", { name: "Form" });
  await form.getByRole("textbox", { name: "Name" }).fill(name);
  await form.getByRole("textbox", { name: "GPUs per task" }).fill("0");
  const editor = page.getByRole("textbox", { name: "Job file" });
  await expect(editor).toContainText("gpu: 0");
  const image = freshName("future");
  await ask(page, "POST", "/images", {
    ...{
      name: image,
      reference: settings.image,
      description: "For next year",
      min_driver: "999",
    },
    cuda_version: "14.0",
  });
  await page.reload();
  await expect(form.getByRole("textbox", { name: "Name" })).toHaveValue(name);
  await editor.getByText(`name: ${name}`).waitFor();
  const option = page.getByRole("option", { name: image });
  // What is typed while the draft still loads is lost.
  await expect(async () => {
    await form.getByLabel("Image", { exact: true }).fill("");
    await form.getByLabel("Image", { exact: true }).fill(image.slice(0, -1));
    await expect(option).toContainText("For next year", { timeout: 5000 });
  }).toPass();
  await shoot(page, "form-images");
  await option.click();
  await form
    .getByText("For next year. CUDA 14.0, driver 999 or newer")
    .waitFor();
  await form.getByRole("textbox", { name: /^Commands/ }).fill("echo formed");
  await editor.getByText(`name: ${name}`).waitFor();
  await editor.getByText("# of the spring runs").waitFor();
  await shoot(page, "form");
  expect(await axe(page)).toEqual([]);

  await write(
    page,
    (await read(editor)).replace("instances: 1", "instances: 2"),
  );
  await expect(form.getByRole("textbox", { name: "Tasks" })).toHaveValue("2");

  await form.getByLabel("New task role").fill("helper");
  await form.getByRole("button", { name: "Add a task role" }).click();
  await editor.getByText("helper:").waitFor();
  await form
    .getByRole("button", { name: "Remove the task role helper" })
    .click();
  await editor.getByText("helper:").waitFor({ state: "hidden" });
  await form.getByLabel("New secret").fill("token");
  await form.getByLabel("Its value", { exact: true }).fill("hunter2");
  await form.getByRole("button", { name: "Add a secret" }).click();
  await form.getByText("<% $secrets.token %>").waitFor();
  await shoot(page, "form-secret");
  expect(await axe(page)).toEqual([]);
  await form.getByRole("button", { name: "Remove the secret token" }).click();
  await form.getByText("<% $secrets.token %>").waitFor({ state: "hidden" });

  await page.setViewportSize({ width: 390, height: 844 });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(390);
  await page.waitForTimeout(400); // the sidebar slides out
  await shoot(page, "form-phone");
  await page.getByRole("button", { name: "Submit" }).click();
  await page.getByRole("heading", { name }).waitFor();
});

/** The text of the editor, which draws its lines as elements. */
async function read(editor) {
  return (await editor.locator(".cm-line").allTextContents()).join("\n");
}
