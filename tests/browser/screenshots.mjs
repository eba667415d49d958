// Pictures of the pages; scripts/screenshots starts Skep, fills it and runs this.
//   node tests/browser/screenshots.mjs [PATTERN]   only those whose name holds PATTERN
import { createRequire } from "node:module";
import { join } from "node:path";
import { mkdirSync, writeFileSync } from "node:fs";

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

const goTo = (text) => async (page) => {
  await page.getByText(text).first().scrollIntoViewIfNeeded();
};
const check = steps(click("button", /^Check$/), (page) =>
  page.getByText("No problems found").waitFor(),
);
const submitTemplate = steps(click("button", "Check and submit"), (page) =>
  page.getByText("No problems found").waitFor(),
);
const vc = (tab) => `/virtual-clusters/vision?tab=${tab}`;

/** Those of the documentation: whose, address, height, what to do. 1440 px wide, light. */
const docs = {
  // A user's
  home: ["bob", "/", 640],
  jobs: ["bob", "/jobs", 760],
  "new-job": ["ada", `/jobs/new?from=${jobs["vit-l-pretrain"]}`, 820, click("button", "Form")],
  "new-job-check": ["ada", `/jobs/new?from=${jobs["vit-l-pretrain"]}`, 760, check],
  job: ["ada", job("vit-l-pretrain", "logs"), 810],
  "job-tasks": ["ada", job("vit-l-pretrain"), 760],
  "job-waits": ["ola", job("distill"), 620],
  "job-failed": ["ada", job("resnet50-sweep-lr3e-4"), 700],
  "job-retried": ["bob", job("flaky-download", "events"), 640],
  "job-metrics": ["ada", job("vit-l-pretrain", "metrics"), 1150],
  "job-share": ["ada", job("vit-l-pretrain"), 700, click("button", /^Share$/)],
  compare: ["ada", "/jobs/compare?tag=lr-sweep", 900],
  notebooks: ["mei", "/apps", 420],
  "notebook-new": ["bob", "/apps", 620, click("button", /New notebook/)],
  templates: ["bob", "/templates", 700],
  template: ["bob", "/templates/pytorch-multi-node", 760],
  "template-submit": ["bob", "/templates/hello", 640, submitTemplate],
  storages: ["bob", "/storages", 360],
  files: ["bob", "/storages/vision-data", 480],
  datasets: ["bob", "/datasets", 360],
  dataset: ["bob", `/datasets/${jobs.dataset}`, 560],
  notifications: ["bob", "/notifications", 420],
  "settings-notifications": ["bob", "/settings/notifications", 760],
  "settings-profile": ["bob", "/settings/profile", 560],
  "settings-security": ["bob", "/settings/security", 640],
  "settings-tokens": ["bob", "/settings/tokens", 480, click("button", /New token/)],
  "settings-registries": ["bob", "/settings/registries", 420],
  "settings-ssh-keys": ["bob", "/settings/ssh-keys", 420],
  "usage-own": ["bob", "/usage", 720],
  // A VC admin's
  vc: ["ada", vc("cells"), 480],
  queue: ["ada", vc("queue"), 640],
  "vc-history": ["ada", vc("history"), 640],
  "vc-usage": ["ada", vc("usage"), 820],
  members: ["ada", vc("members"), 700],
  "vc-storages": ["ada", vc("storages"), 420],
  "vc-settings": ["ada", vc("settings"), 900],
  "vc-limits": ["ada", vc("settings"), 820, goTo("Jobs above these limits wait")],
  "vc-audit": ["ada", vc("audit"), 560],
  simulator: ["ada", "/simulator", 900],
  // A platform admin's
  cluster: ["mei", "/cluster", 560],
  "cluster-node": ["mei", "/cluster", 760, openNode],
  "cluster-drain": ["mei", "/cluster", 760, steps(openNode, click("button", /^Drain$/))],
  "cluster-add": ["mei", "/cluster", 640, click("button", /Add a? ?node/i)],
  vcs: ["mei", "/virtual-clusters", 420],
  "vcs-new": ["mei", "/virtual-clusters", 560, click("button", /New virtual cluster/)],
  cells: ["mei", "/cells", 560],
  users: ["mei", "/users", 480],
  groups: ["mei", "/groups", 420],
  tokens: ["mei", "/tokens", 480],
  images: ["mei", "/images", 360],
  "storages-admin": ["mei", "/storages", 420],
  "storage-new": ["mei", "/storages", 860, click("button", /Add a storage/)],
  usage: ["mei", "/usage", 760],
  simulation: ["mei", `/simulator/${jobs.simulation}`, 980],
  announcements: ["mei", "/announcements", 420],
  audit: ["mei", "/audit", 640],
  health: ["mei", "/health", 520],
  about: ["mei", "/about", 560],
  login: ["", "/login", 620],
};

/** Of these, pictures in the dark scheme and on a phone too. */
const DARK = ["home", "job-metrics", "cluster", "usage"];
const PHONE = ["home", "job", "job-waits", "cluster"];

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
  const all = Object.entries(docs).flatMap(([name, [user, path, height, act]]) => {
    const one = { user, path, act, name };
    const kinds = [{ ...one, viewport: { width: 1440, height } }];
    if (DARK.includes(name)) kinds.push({ ...kinds[0], name: `${name}-dark`, colorScheme: "dark" });
    if (PHONE.includes(name))
      kinds.push({ ...one, name: `${name}-phone`, viewport: SIZES[1], colorScheme: "dark" });
    return kinds;
  });
  for (const user of new Set(all.map((picture) => picture.user))) {
    const page = await open({ viewport: SIZES[0] }, user);
    for (const picture of all.filter((one) => one.user === user && isChosen(one.name))) {
      await page.setViewportSize(picture.viewport);
      await page.emulateMedia({ colorScheme: picture.colorScheme ?? "light" });
      await show(page, picture.path, picture.act);
      await saveWebp(page, join(ROOT, "docs/img", `${picture.name}.webp`));
    }
    await page.context().close();
  }
}

/** A third of the size of a PNG. Playwright itself writes none. */
async function saveWebp(page, file) {
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 82 });
  writeFileSync(file, Buffer.from(data, "base64"));
  await session.detach();
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

function isChosen(name) {
  return new RegExp(pattern).test(name);
}

function chosen(all) {
  return Object.entries(all).filter(([name]) => isChosen(name));
}

/** The page of a user who is logged in; of none, where there is no name. */
async function open(options, user = SKEP_USER) {
  const context = await browser.newContext({ baseURL: SKEP_URL, ...options });
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  if (!user) return page;
  await page.goto("/login");
  await page.getByLabel("User name").fill(user);
  await page.getByLabel("Password", { exact: true }).fill(SKEP_PASSWORD);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Home", exact: true }).waitFor();
  return page;
}

async function show(page, path, act) {
  await page.goto(path);
  await page.locator("main, [data-page]").first().waitFor();
  await page.waitForLoadState("networkidle");
  if (act) await act(page);
  await page.mouse.move(0, 0); // away from tooltips
  await page.waitForTimeout(700); // for what fades in
}

async function shoot(page, path, act, file) {
  await show(page, path, act);
  await page.screenshot({ path: file, fullPage: true });
}
