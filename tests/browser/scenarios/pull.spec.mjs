import {
  ask,
  expect,
  freshName,
  jobFile,
  logIn,
  reach,
  shoot,
  test,
} from "../visitor.mjs";

const PULLED = /Pulling image, (\d+) %, [\d.]+ of [\d.]+ MB/;

/** An image that comes slowly: its percents rise on the page without a reload. */
test("the pull of an image is watched", async ({ page }) => {
  await logIn(page);
  const file = jobFile({
    name: freshName("pulls"),
    image: process.env.SKEP_SLOW_IMAGE,
  });
  const job = await ask(page, "POST", "/jobs", file);
  await page.goto(`/jobs/${job.id}`);

  const header = page.getByRole("paragraph").filter({ hasText: PULLED });
  await header.waitFor();
  const first = percent(await header.textContent());
  await expect
    .poll(async () => percent(await header.textContent()), { timeout: 30_000 })
    .toBeGreaterThan(first);
  await page
    .getByRole("row", { name: /worker-0/ })
    .getByTitle(PULLED)
    .waitFor();
  await shoot(page, "pull");
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  await shoot(page, "pull-phone");
  await reach(page, job, "SUCCEEDED");
});

function percent(text) {
  return Number(PULLED.exec(text ?? "")?.[1] ?? 100);
}
