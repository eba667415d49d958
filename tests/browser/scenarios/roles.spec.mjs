import {
  ask,
  expect,
  freshName,
  jobFile,
  logIn,
  matches,
  reach,
  routes,
  shootBoth,
  test,
} from "../visitor.mjs";

const PASSWORD = "many-busy-bees";
const REFUSED = "For administrators only";
const FOR_ADMINS = [
  "/users",
  "/groups",
  "/tokens",
  "/announcements",
  "/health",
  "/cells",
];
const NOBODYS = "00000000-0000-7000-8000-000000000000";
const JOB_TABS = [
  "tasks",
  "logs",
  "metrics",
  "attempts",
  "events",
  "spec",
  "terminal",
];
const VC_TABS = [
  "cells",
  "queue",
  "history",
  "usage",
  "members",
  "storages",
  "settings",
  "audit",
];
/** The tabs of a virtual cluster that only those who may manage it see. */
const MANAGED = ["Settings", "Audit"];
/** A page is at rest when it has had no request under way for so many milliseconds. */
const REST_MS = 100;

/** Everybody but the platform admin, who opens every page in `accessibility`. `sees` is whether the
 * job of a member, private to its owner and the VC's admins, can be read. */
const CALLERS = {
  stranger: { role: null, submits: false, sees: false, reads: false },
  viewer: { role: "viewer", submits: false, sees: false, reads: true },
  member: { role: "member", submits: true, sees: false, reads: true },
  owner: { role: "member", submits: true, sees: true, reads: true },
  manager: { role: "admin", submits: true, sees: true, reads: true },
};

/** Every page, as everybody: it is drawn without an error, asks the server for nothing that this
 * caller may not have, offers what the caller may do, and shows no job of others. */
test("every page is whole for every role and shows what the role may see", async ({
  browse,
}) => {
  const team = freshName("team");
  const names = Object.fromEntries(
    Object.keys(CALLERS).map((who) => [who, freshName(who)]),
  );
  const job = { name: freshName("private-to-its-owner") };

  await browse(async (page) => {
    await logIn(page);
    await ask(page, "POST", "/virtual-clusters", { name: team });
    for (const [who, { role }] of Object.entries(CALLERS)) {
      const username = names[who];
      await ask(page, "POST", "/users", { username, password: PASSWORD });
      if (!role) continue;
      await ask(page, "PUT", `/virtual-clusters/${team}/members/${username}`, {
        role,
      });
    }
  });
  await browse(async (page) => {
    await logIn(page, { user: names.owner, password: PASSWORD });
    const file = jobFile({ ...job, command: "'echo hello; sleep 900'" })
      .replace("virtualCluster: default", `virtualCluster: ${team}`)
      .concat("extras:\n  hivedScheduler:\n    jobPriorityClass: oppo\n");
    Object.assign(job, await ask(page, "POST", "/jobs", file));
    await reach(page, job, "RUNNING");
  });

  const all = views(team, job, { sees: true, reads: true });
  const unseen = routes().filter(
    (route) => !all.some((path) => matches(route, path)),
  );
  expect(unseen, "no role opened these").toEqual([]);

  const found = [];
  for (const [who, may] of Object.entries(CALLERS)) {
    await browse(async (page) => {
      const { refused, rest } = watch(page);
      await logIn(page, { user: names[who], password: PASSWORD });
      for (const path of views(team, job, may)) {
        const problems = await look(page, path, rest, { team, job, ...may });
        problems.push(
          ...refused
            .splice(0)
            .filter((each) => !isMissing(each, job, team, may)),
        );
        found.push(
          ...problems.map((problem) => `${who} at ${path}: ${problem}`),
        );
      }
      await page.goto("/");
      await rest();
      await shootBoth(page, `role-${who}-home`);
      await page.goto(`/virtual-clusters/${team}`);
      await rest();
      await shootBoth(page, `role-${who}-vc`);
    });
  }
  expect(found, found.join("\n")).toEqual([]);
  await browse(async (page) => {
    await logIn(page);
    await ask(page, "POST", `/jobs/${job.id}/stop`);
  });
});

function views(team, job, { sees, reads }) {
  return [
    "/",
    "/jobs",
    `/jobs?vc=${team}`,
    "/jobs/new",
    `/jobs/new?from=${job.id}`,
    "/jobs/compare",
    "/archive",
    `/archive/${NOBODYS}`,
    ...(sees ? JOB_TABS : ["logs"]).map((tab) => `/jobs/${job.id}?tab=${tab}`),
    `/jobs/${NOBODYS}`,
    "/templates",
    "/templates/hello",
    "/cluster",
    "/virtual-clusters",
    ...(reads ? VC_TABS : ["queue"]).map(
      (tab) => `/virtual-clusters/${team}?tab=${tab}`,
    ),
    "/usage",
    "/usage?by=user",
    "/simulator",
    `/simulator/${NOBODYS}`,
    "/images",
    "/storages",
    "/storages/there-is-none",
    "/datasets",
    `/datasets/${NOBODYS}`,
    "/apps",
    `/apps/${NOBODYS}`,
    "/notifications",
    "/audit",
    "/settings",
    ...[
      "profile",
      "security",
      "tokens",
      "registries",
      "ssh-keys",
      "notifications",
    ].map((section) => `/settings/${section}`),
    "/profile",
    "/about",
    "/device",
    "/confirm-email?token=none",
    "/reset-password?user=none&token=none",
    "/forgot-password",
    "/unsubscribe?token=none",
    "/login",
    ...FOR_ADMINS,
  ];
}

/** What the server refused or broke while a page was drawn, and how to wait for its last answer. */
function watch(page) {
  const refused = [];
  let open = 0;
  let last = Date.now();
  const change = (by) => () => {
    open += by;
    last = Date.now();
  };
  page.on("request", change(1));
  page.on("requestfinished", change(-1));
  page.on("requestfailed", change(-1));
  page.on("response", (response) => {
    if (response.status() >= 400) {
      const { pathname } = new URL(response.url());
      refused.push(
        `${response.status()} of ${response.request().method()} ${pathname}`,
      );
    }
  });
  const rest = async () => {
    while (open > 0 || Date.now() - last < REST_MS)
      await page.waitForTimeout(25);
  };
  return { refused, rest };
}

/** A page about something that this caller cannot see, or that does not exist, is answered so. */
function isMissing(refused, job, team, { sees, reads }) {
  const hidden = [
    NOBODYS,
    "there-is-none",
    "token",
    "unsubscribe",
    "reset-password",
    "confirm",
  ];
  if (!sees) hidden.push(job.id);
  if (!reads) hidden.push(`/virtual-clusters/${team}`);
  return (
    /^40[04] /.test(refused) && hidden.some((part) => refused.includes(part))
  );
}

/** What is wrong with a page, for this caller. */
async function look(page, path, rest, may) {
  await page.goto(path);
  await page.locator("main, [data-page]").first().waitFor();
  await rest();
  let problems = await inspect(page, path, may);
  for (let looks = 1; problems.length > 0 && looks < 10; looks += 1) {
    await page.waitForTimeout(300); // what is drawn late is no fault
    problems = await inspect(page, path, may);
  }
  return problems;
}

async function inspect(page, path, { team, job, role, submits, sees, reads }) {
  const said = [];
  const text = await page.locator("body").innerText();
  const count = (locator) => locator.count();
  const check = (holds, problem) => holds || said.push(problem);

  const admin = FOR_ADMINS.includes(path);
  check(
    text.includes(REFUSED) === admin,
    admin ? "is not refused" : "is for administrators only",
  );
  check(!text.includes("Something went wrong"), "broke");
  check(
    !/could not be read/.test(text),
    `reads what it may not: ${text.match(/.*could not be read/)}`,
  );
  check(
    sees || !text.includes(job.name),
    "tells the name of a job that is not shared",
  );
  if (path.startsWith(`/jobs/${job.id}`)) {
    check(
      text.includes("No such job") === !sees,
      sees ? "hides the own job" : "shows the job",
    );
  }
  if (path.startsWith(`/virtual-clusters/${team}`)) {
    check(
      text.includes("No such virtual cluster") === !reads,
      reads ? "hides the VC" : "shows a VC of others",
    );
    if (reads) {
      const tabs = page.getByRole("navigation", {
        name: "About this virtual cluster",
      });
      const shown = await tabs.getByRole("link").allInnerTexts();
      const managed = MANAGED.filter((tab) =>
        shown.some((each) => each.startsWith(tab)),
      );
      check(
        managed.length === (role === "admin" ? MANAGED.length : 0),
        `has the tabs ${shown}`,
      );
    }
  }
  if (await count(page.getByRole("navigation", { name: "Main" }))) {
    const invited =
      (await count(page.getByRole("link", { name: "New job", exact: true }))) >
      0;
    check(invited === submits, submits ? "has no New job" : "offers New job");
    check(
      !text.includes("ADMINISTRATION") && !text.includes("Administration"),
      "leads to administration",
    );
  }
  return said;
}
