import {
  browse,
  expect,
  freshName,
  jobFile,
  logIn,
  shoot,
  write,
} from "../visitor.mjs";

/** A job whose storage is not mounted would train into nowhere: the page asks first. */
export default () =>
  browse(async (page) => {
    await logIn(page);
    await page.goto("/jobs/new");
    const file = jobFile({
      name: freshName("stores"),
      command: "echo done",
      gpus: 0,
    });
    await write(page, `${file}extras:\n  storages:\n    - name: team-nfs\n`);
    await page.getByRole("button", { name: "Submit" }).click();
    const accept = page.getByRole("checkbox", {
      name: /although its storage is not mounted/,
    });
    await accept.waitFor();
    await shoot(page, "storage");
    expect(
      page.url().endsWith("/jobs/new"),
      "it was submitted without being asked for",
    );
    await accept.check();
    await page.getByRole("button", { name: "Submit" }).click();
    await page.waitForURL((url) => !url.pathname.endsWith("/new"));
    await page.locator("header").getByText("Succeeded").waitFor();
  });
