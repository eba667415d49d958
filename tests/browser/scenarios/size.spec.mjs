import { ask, expect, logIn, shoot, test } from "../visitor.mjs";
import { count } from "../wire.mjs";

const MOST_DATA = 300_000; // bytes of the API's answers, as they were sent
const FIRST_PICTURE = 500_000; // bytes of all that the cluster page needs, both ways
const MOST_ELEMENTS = 4000; // the page of cells draws each virtual cluster
const A_MINUTE = 5000; // bytes of a page at rest, both ways, with headers

/** 10,000 jobs, one of 2,000 tasks, 10,000 nodes with 80,000 GPUs (benchmarks/pages_fill.py). */
test("no page of a large platform loads or draws too much", async ({ page }) => {
  await page.clock.install();
  const api = await countApi(page);
  await logIn(page);
  const { results } = await ask(page, "GET", "/jobs?search=large");
  const large = results.find((job) => job.name === "large");
  const vc = "/virtual-clusters/vc-0";
  const found = [];
  for (const path of [
    "/",
    "/jobs",
    "/jobs?q=resnet",
    `/jobs/${large.id}`,
    `/jobs/${large.id}?tab=logs`,
    "/cluster",
    "/virtual-clusters",
    vc,
    `${vc}?tab=queue`,
    `${vc}?tab=members`,
    "/usage",
    "/users",
    "/audit",
    "/cells",
    "/about",
  ]) {
    api.reset();
    await page.goto(path);
    await page.locator("main").waitFor();
    await page.waitForLoadState("networkidle");
    const elements = await page.evaluate(() => document.querySelectorAll("*").length);
    found.push({ path, bytes: api.bytes(), elements });
  }
  const lines = found.map((one) => `${one.path}: ${one.bytes} bytes, ${one.elements} elements`);
  if (process.env.SKEP_SHOW) console.log(lines.join("\n"));
  const beyond = found.filter(
    ({ bytes, elements }) => bytes > MOST_DATA || elements > MOST_ELEMENTS,
  );
  expect(beyond, lines.join("\n")).toEqual([]);

  const wire = count(page);
  for (const path of ["/cluster", "/jobs", `/jobs/${large.id}`]) {
    await page.goto(path);
    await page.locator("main").waitFor();
    await page.waitForLoadState("networkidle");
    const { bytes, requests } = await wire.atRest(1);
    if (process.env.SKEP_SHOW) console.log(`${path} at rest: ${bytes} (${requests.join(" ")})`);
    expect(bytes < A_MINUTE, `${path} at rest: ${bytes} bytes a minute`).toBeTruthy();
  }
});

test("the first picture of 10,000 nodes is small", async ({ page }) => {
  await logIn(page);
  const context = await page.context().browser().newContext({
    baseURL: new URL(page.url()).origin,
  });
  await context.addCookies(await page.context().cookies());
  const first = await context.newPage(); // with an empty cache
  const wire = count(first);
  await first.goto("/cluster");
  await first.locator("[data-gpu]").first().waitFor();
  await first.waitForLoadState("networkidle");
  const { bytes } = await wire.sum();
  if (process.env.SKEP_SHOW) console.log(`first picture: ${bytes} bytes`);
  await first.getByText("10,000 nodes").waitFor();
  await shoot(first, "size-cluster");
  await context.close();
  expect(bytes < FIRST_PICTURE, `the first picture costs ${bytes} bytes`).toBeTruthy();
});

/** Counts the encoded bytes of the API's answers, headers included. */
async function countApi(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  const asked = new Set();
  let bytes = 0;
  session.on("Network.requestWillBeSent", ({ requestId, request }) => {
    if (new URL(request.url).pathname.startsWith("/api/")) asked.add(requestId);
  });
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    if (asked.has(requestId)) bytes += encodedDataLength;
  });
  return { reset: () => (bytes = 0), bytes: () => bytes };
}
