// Pictures of the pages; scripts/screenshots starts Skep, fills it and runs this.
//   node tests/browser/screenshots.mjs [PATTERN]   only those whose name holds PATTERN
import { createRequire } from "node:module";
import { join } from "node:path";
import { mkdirSync } from "node:fs";

const ROOT = new URL("../..", import.meta.url).pathname;
const { chromium } = createRequire(join(ROOT, "webui/package.json"))("@playwright/test");
const { SKEP_URL, SKEP_USER, SKEP_PASSWORD, SKEP_PICTURES, CHROMIUM } = process.env;
const jobs = JSON.parse(process.env.SKEP_JOBS);
const [pattern = ""] = process.argv.slice(2);

const SIZES = [
  { width: 1440, height: 900 },
  { width: 390, height: 844 },
];
const LOGIN = "login";

const click = (role, name) => async (page) => {
  await page.getByRole(role, { name }).first().click();
};
const steps =
  (...acts) =>
  async (page) => {
    for (const act of acts) await act(page);
  };
const job = (name, tab) => `/jobs/${jobs[name]}${tab ? `?tab=${tab}` : ""}`;
const tabs = (name, short, names) =>
  Object.fromEntries(names.map((tab) => [`job-${short}-${tab}`, [job(name, tab)]]));
const JOB_TABS = ["tasks", "logs", "metrics", "attempts", "events", "spec", "terminal"];
const openNode = click("button", /^node-1:/);

/** Address and what to do there, by the name of the picture. */
const pages = {
  [LOGIN]: ["/login"],
  reset: ["/reset-password?user=mei&token=none"],
  home: ["/"],
  jobs: ["/jobs"],
  "jobs-none": ["/jobs?q=there-is-no-such-job"],
  "jobs-keys": ["/jobs", (page) => page.keyboard.press("?")],
  "submit-empty": ["/jobs/new"],
  "submit-checked": [
    "/jobs/new",
    steps(
      (page) => page.getByRole("listitem").getByRole("button").first().click(),
      click("button", /^Check$/),
      (page) => page.waitForTimeout(1500),
    ),
  ],
  "submit-convert": ["/jobs/new", click("button", /Convert|Import/)],
  ...tabs("vit-l-pretrain", "running", JOB_TABS),
  "job-running-task": [job("vit-l-pretrain", "tasks"), click("button", /worker/)],
  ...tabs("resnet50-sweep-lr3e-4", "failed", ["tasks", "logs", "metrics", "attempts", "events"]),
  "job-typo": [job("typo")],
  ...tabs("flaky-download", "retried", ["tasks", "attempts", "events"]),
  "job-waiting": [job("whole-quota")],
  "job-waiting-logs": [job("vit-h-pretrain", "logs")],
  "job-long-name": [job("wav2vec-finetune-on-a-corpus-with-a-rather-long-name-2026-11")],
  "job-oppo": [job("evaluate")],
  "job-stopped": [job("cancelled-run")],
  "job-succeeded": [job("tokenizer-fit", "logs")],
  "job-missing": ["/jobs/00000000-0000-7000-8000-000000000000"],
  cluster: ["/cluster"],
  "cluster-node": ["/cluster", openNode],
  "cluster-drain": ["/cluster", steps(openNode, click("button", /^Drain$/))],
  "cluster-add": ["/cluster", click("button", /Add a? ?node/i)],
  vcs: ["/virtual-clusters"],
  "vcs-new": ["/virtual-clusters", click("button", /New virtual cluster/)],
  ...Object.fromEntries(
    ["cells", "queue", "history", "members", "settings"].flatMap((tab) =>
      ["default", "vision"].map((vc) => [
        `vc-${vc}-${tab}`,
        [`/virtual-clusters/${vc}?tab=${tab}`],
      ]),
    ),
  ),
  "vc-nodes": ["/virtual-clusters/vision?over=nodes"],
  usage: ["/usage"],
  notebooks: ["/apps"],
  "notebooks-new": ["/apps", click("button", /New notebook/)],
  images: ["/images"],
  storages: ["/storages"],
  groups: ["/groups"],
  tokens: ["/tokens"],
  announcements: ["/announcements"],
  notifications: ["/notifications"],
  audit: ["/audit"],
  "settings-security": ["/settings/security"],
  "settings-notifications": ["/settings/notifications"],
  "settings-registries": ["/settings/registries"],
  users: ["/users"],
  "users-new": ["/users", click("button", /New user|Add/)],
  cells: ["/cells"],
  health: ["/health"],
  profile: ["/profile"],
  "profile-token": ["/settings/tokens", click("button", /New token/)],
  about: ["/about"],
  "no-page": ["/jobs/no/such/page"],
};

/** Those of the documentation: file, address, width and height, what to do. */
const docs = {
  job: [job("vit-l-pretrain", "logs"), 1440, 810],
  home: ["/", 1360, 560],
  "new-job": [`/jobs/new?from=${jobs["vit-l-pretrain"]}`, 1440, 720, click("button", "Form")],
  cluster: ["/cluster", 1440, 660],
  members: ["/virtual-clusters/vision?tab=members", 1360, 560],
  vc: ["/virtual-clusters/default", 1360, 590],
  queue: ["/virtual-clusters/vision?tab=queue", 1360, 590],
};

const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
});
try {
  await (SKEP_PICTURES === "docs" ? takeDocs() : takePages());
} finally {
  await browser.close();
}

async function takeDocs() {
  for (const [name, [path, width, height, act]] of chosen(docs)) {
    const page = await open({ viewport: { width, height }, deviceScaleFactor: 1.5 });
    await shoot(page, path, act, join(ROOT, "docs/img", `${name}.png`));
    await page.context().close();
  }
}

async function takePages() {
  const out = join(ROOT, "test-results/screenshots");
  mkdirSync(out, { recursive: true });
  for (const viewport of SIZES) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await open({ viewport, colorScheme, hasTouch: viewport.width < 500 });
      for (const [name, [path, act]] of chosen(pages)) {
        const file = join(out, `${name}-${viewport.width}-${colorScheme}.png`);
        await shoot(page, path, act, file).catch((error) =>
          console.error(`${name}: ${error.message.split("\n")[0]}`),
        );
      }
      await page.context().close();
    }
  }
}

function chosen(all) {
  return Object.entries(all).filter(([name]) => new RegExp(pattern).test(name));
}

async function open(options) {
  const context = await browser.newContext({ baseURL: SKEP_URL, ...options });
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  await page.goto("/login");
  await page.getByLabel("User name").fill(SKEP_USER);
  await page.getByLabel("Password", { exact: true }).fill(SKEP_PASSWORD);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Home", exact: true }).waitFor();
  return page;
}

async function shoot(page, path, act, file) {
  await page.goto(path);
  await page.locator("main, [data-page]").first().waitFor();
  await page.waitForLoadState("networkidle");
  if (act) await act(page);
  await page.mouse.move(0, 0); // away from tooltips
  await page.waitForTimeout(700); // for what fades in
  await page.screenshot({ path: file, fullPage: SKEP_PICTURES !== "docs" });
}
