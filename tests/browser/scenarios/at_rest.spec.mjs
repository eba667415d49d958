import { ask, expect, freshName, jobFile, logIn, test } from "../visitor.mjs";
import { count } from "../wire.mjs";

const A_MINUTE = 5000; // bytes, both ways, with headers
/** The same of pages with samples: these come by the clock of the server, more of them while the
 * minutes of a page take long. */
const WITH_SAMPLES = 7500;
const SAMPLES = ["?tab=metrics", "/cluster"];
const MINUTES = 4;
/** With the grid of 10,000 nodes (tests/integration/core/test_bytes.py) this makes 500 KB. */
const FIRST_PICTURE = 400_000;

/** What an open page at rest costs, and the cluster page up to its first picture: bytes on the
 * wire are counted, minutes go by on the page's own clock. */
test("finding U21: a page at rest costs few bytes", async ({ page }) => {
  await page.clock.install();
  const wire = count(page);
  await page.goto("/login");
  await logIn(page);
  const job = await ask(
    page,
    "POST",
    "/jobs",
    jobFile({ name: freshName("rests"), command: "sleep 900" }),
  );
  await page.goto(`/jobs/${job.id}`);
  await page.getByText("Running", { exact: true }).first().waitFor();
  const costs = [];
  for (const path of [
    "/jobs",
    `/jobs/${job.id}`,
    `/jobs/${job.id}?tab=logs`,
    `/jobs/${job.id}?tab=events`,
    `/jobs/${job.id}?tab=metrics`,
    "/cluster",
    "/virtual-clusters",
    "/virtual-clusters/default",
    "/virtual-clusters/default?tab=queue",
    "/virtual-clusters/default?tab=history",
    "/cells",
  ]) {
    await page.goto(path);
    await page.locator("main").waitFor();
    await page.waitForLoadState("networkidle");
    const { bytes, requests } = await wire.atRest(MINUTES);
    const each = Math.round(bytes / MINUTES);
    costs.push({ path, each, requests });
  }
  const explanation = costs.map(
    ({ path, each, requests }) => `${path}: ${each} (${requests.join(" ")})`,
  );
  if (process.env.SKEP_SHOW) console.log(explanation.join("\n"));
  expect(
    costs.every(({ path, each }) => each < mostOf(path)),
    `bytes a minute:\n${explanation.join("\n")}`,
  ).toBeTruthy();

  const fresh = await page
    .context()
    .browser()
    .newContext({ baseURL: new URL(page.url()).origin });
  await fresh.addCookies(await page.context().cookies());
  const first = await fresh.newPage();
  const opening = count(first);
  await first.goto("/cluster");
  await first.locator("[data-gpu]").first().waitFor();
  await first.waitForLoadState("networkidle");
  const { bytes } = await opening.sum();
  if (process.env.SKEP_SHOW) console.log(`first picture: ${bytes}`);
  expect(
    bytes < FIRST_PICTURE,
    `the first picture costs ${bytes} bytes`,
  ).toBeTruthy();
  await ask(page, "POST", `/jobs/${job.id}/stop`);
});

function mostOf(path) {
  return SAMPLES.some((end) => path.endsWith(end)) ? WITH_SAMPLES : A_MINUTE;
}
