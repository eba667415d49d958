import {
  axe,
  expect,
  expectToFit,
  logIn,
  shootBoth,
  test,
} from "../visitor.mjs";

const { SKEP_JOB: id } = process.env;

/** A job that was moved to the archive is found by its name; its address of before leads there. */
test("a job of long ago is found in the archive", async ({ page }) => {
  await logIn(page);
  await page.goto("/jobs");
  await page.getByRole("link", { name: "Archive" }).click();
  await page.getByLabel("Name contains").fill("long");
  await page.getByRole("link", { name: "long-ago" }).waitFor();
  await expectToFit(page, "/archive");
  await shootBoth(page, "archive");
  expect(await axe(page)).toEqual([]);
  await page.getByRole("link", { name: "long-ago" }).click();
  await page.getByRole("heading", { name: "long-ago" }).waitFor();
  await page.getByText("Failed", { exact: true }).first().waitFor();
  await page.getByText("echo hello; exit 3").first().waitFor();
  expect(await axe(page)).toEqual([]);
  await shootBoth(page, "archived-job");
  await page.setViewportSize({ width: 390, height: 844 });
  await expectToFit(page, `/archive/${id}`);

  await page.goto(`/jobs/${id}?tab=logs`);
  await page.getByRole("link", { name: "Open its record" }).click();
  await page.getByRole("heading", { name: "long-ago" }).waitFor();
});
