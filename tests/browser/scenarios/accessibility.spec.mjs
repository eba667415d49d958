import {
  ask,
  axe,
  expect,
  freshName,
  jobFile,
  logIn,
  matches,
  reach,
  routes,
  test,
} from "../visitor.mjs";

const WIDTH = Number(process.env.SKEP_WIDTH ?? 1440);
const SIZE = { width: WIDTH, height: WIDTH > 800 ? 900 : 844 };
/** A scheme changes nothing but colours: all rules are asked in the first one only. */
const SCHEMES = { light: [], dark: ["color-contrast"] };
const WITHOUT_LOGIN = [
  ["/login"],
  ["/reset-password?user=mei&token=none"],
  ["/unsubscribe?token=none"],
  ["/forgot-password"],
];

/** axe-core finds nothing to say about any page, with jobs in every state, in both colour schemes;
 * SKEP_WIDTH makes it a desk or a phone. */
test("finding U28: axe-core finds nothing on any page", async ({ page }) => {
  const said = [];
  await page.setViewportSize(SIZE);
  for (const view of WITHOUT_LOGIN) await see(page, said, ...view);
  await page.setViewportSize({ width: 1440, height: 900 });
  await logIn(page);
  const jobs = await makeJobs(page);
  await page.setViewportSize(SIZE);
  const all = views(jobs);
  for (const view of all) await see(page, said, ...view);
  expect(
    said.length === 0,
    `axe found ${said.length}:\n${said.join("\n")}`,
  ).toBeTruthy();

  const seen = [...WITHOUT_LOGIN, ...all].map(([path]) => path);
  const unseen = routes().filter(
    (route) => !seen.some((path) => matches(route, path)),
  );
  expect(
    unseen.length === 0,
    `no test opened ${unseen.join(", ")}`,
  ).toBeTruthy();
  for (const job of Object.values(jobs))
    await ask(page, "POST", `/jobs/${job.id}/stop`);
});

/** [path, what to do there before it is looked at]. */
function views({ running, failed, waiting }) {
  const tabs = ["tasks", "logs", "metrics", "attempts", "events", "spec"];
  return [
    ["/"],
    ["/jobs"],
    ["/jobs?state=WAITING"],
    ["/jobs?q=there-is-no-such-job"],
    ["/jobs", (page) => page.keyboard.press("?"), "keys"],
    ["/jobs/compare"],
    ["/jobs/compare?tag=there-is-no-such-tag"],
    ["/archive"],
    ["/archive/00000000-0000-7000-8000-000000000000"],
    ["/jobs/new"],
    ["/jobs/new", checkAnExample, "checked"],
    ...tabs.map((tab) => [`/jobs/${running.id}?tab=${tab}`]),
    [`/jobs/${running.id}?tab=terminal`],
    ...tabs.map((tab) => [`/jobs/${failed.id}?tab=${tab}`]),
    [`/jobs/${waiting.id}`],
    ["/jobs/00000000-0000-7000-8000-000000000000"],
    ["/templates"],
    ["/templates/hello"],
    ["/templates/there-is-none"],
    ["/cluster"],
    ["/cluster", openNode, "node"],
    ["/cluster", askToDrain, "drain"],
    ["/virtual-clusters"],
    ...[
      "cells",
      "queue",
      "history",
      "usage",
      "members",
      "storages",
      "settings",
      "audit",
    ].map((tab) => [`/virtual-clusters/default?tab=${tab}`]),
    ["/virtual-clusters/default?over=nodes"],
    ["/usage"],
    ["/simulator"],
    ["/simulator/00000000-0000-7000-8000-000000000000"],
    ["/usage?by=user&plot=class&range=90d"],
    ["/images"],
    ["/storages"],
    ["/storages/there-is-none"],
    ["/datasets"],
    ["/datasets/00000000-0000-7000-8000-000000000000"],
    ["/notifications"],
    ["/announcements"],
    ["/apps"],
    ["/apps", newNotebook, "new"],
    ["/apps/00000000-0000-7000-8000-000000000000"],
    ["/groups"],
    ["/users"],
    ["/tokens"],
    ["/cells"],
    ["/audit"],
    ["/audit", openEntry, "entry"],
    ["/audit?target=there-is-no-such-thing"],
    ["/health"],
    ["/profile"],
    ["/confirm-email?token=none"],
    ["/device"],
    ["/device?code=BBBB-BBBB"],
    ["/settings"],
    ["/settings/profile"],
    ["/settings/security"],
    ["/settings/tokens"],
    ["/settings/registries"],
    ["/settings/ssh-keys"],
    ["/settings/notifications"],
    ["/about"],
    ["/jobs/no/such/page"],
  ];
}

const checkAnExample = async (page) => {
  await page.getByRole("listitem").getByRole("button").first().click();
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await page.getByText("No problems found").waitFor();
};

const newNotebook = async (page) => {
  await page.getByRole("button", { name: "New notebook" }).click();
  await page.getByRole("dialog").waitFor();
};

const openEntry = async (page) => {
  await page
    .getByRole("button", { name: /^Details of/ })
    .first()
    .click();
  await page.getByText("Program").first().waitFor();
};

const openNode = async (page) => {
  await page.getByRole("button", { name: /^node-1:/ }).click();
  await page
    .getByRole("dialog", { name: "node-1" })
    .getByText("Heartbeat")
    .waitFor();
};

const askToDrain = async (page) => {
  await openNode(page);
  await page.getByRole("button", { name: "Drain", exact: true }).click();
  await page.getByRole("dialog", { name: /^Drain node-1/ }).waitFor();
};

async function see(page, said, path, act, note = "") {
  await page.goto(path);
  await page.locator("main, [data-page]").first().waitFor();
  await page.waitForLoadState("networkidle");
  if (act) await act(page);
  await page.mouse.move(0, 0); // away from tooltips
  for (const [colorScheme, rules] of Object.entries(SCHEMES)) {
    await page.emulateMedia({ colorScheme });
    await page
      .locator(`html[data-mantine-color-scheme=${colorScheme}]`)
      .waitFor();
    const where = `${path} ${note} (${colorScheme}, ${WIDTH} px)`;
    for (const problem of await remaining(page, rules)) said.push(`${where}: ${problem}`);
  }
}

/** What axe-core still finds when the page has come to rest: half-faded text is no lasting fault. */
async function remaining(page, rules) {
  let problems = await axe(page, rules);
  for (let looks = 1; problems.length > 0 && looks < 4; looks += 1) {
    await page.waitForTimeout(500);
    problems = await axe(page, rules);
  }
  return problems;
}

async function makeJobs(page) {
  const submit = (job) => ask(page, "POST", "/jobs", jobFile(job));
  const failed = await submit({
    name: freshName("fails"),
    command: "'echo oops >&2; exit 3'",
  });
  const running = await submit({
    name: freshName("runs"),
    command: "'echo hello; sleep 900'",
  });
  await reach(page, failed, "FAILED");
  await reach(page, running, "RUNNING");
  const waiting = await submit({
    name: freshName("waits"),
    command: "sleep 1",
    gpus: 8,
    tasks: 2,
  });
  await page.waitForTimeout(1500);
  await ask(page, "PUT", `/jobs/${running.id}/tags`, {
    tags: ["vision", "nightly"],
  });
  return { failed, running, waiting };
}
