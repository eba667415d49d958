import {
  expect,
  freshName,
  jobFile,
  logIn,
  shoot,
  test,
  write,
} from "../visitor.mjs";

/** A job whose storage is not mounted would train into nowhere: the page asks first. */
test("finding U9: a job that loses its storage is asked for", async ({
  page,
}) => {
  await logIn(page);
  await page.goto("/jobs/new");
  const file = jobFile({
    name: freshName("stores"),
    command: "echo done",
    gpus: 0,
  });
  await write(
    page,
    `${file}extras:\n  com.microsoft.pai.runtimeplugin:\n    - plugin: azure_storage\n`,
  );
  await page.getByRole("button", { name: "Submit" }).click();
  const accept = page.getByRole("checkbox", {
    name: /although its storage is not mounted/,
  });
  await accept.waitFor();
  await shoot(page, "storage");
  expect(
    page.url().endsWith("/jobs/new"),
    "it was submitted without being asked for",
  ).toBeTruthy();
  await accept.check();
  await page.getByRole("button", { name: "Submit" }).click();
  await page.waitForURL((url) => !url.pathname.endsWith("/new"));
  await page.locator("header").getByText("Succeeded").waitFor();
});
