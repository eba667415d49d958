import {
  ask,
  expect,
  expectToFit,
  freshName,
  jobFile,
  logIn,
  matches,
  reach,
  routes,
  shoot,
  test,
} from "../visitor.mjs";

const PHONE = { width: 390, height: 844 };
const WIDTHS = [390, 768, 1024, 1440];

/** Every page fits a phone: nothing scrolls sideways but a table inside its own frame, whose links
 * to logs and terminals stay in sight. */
test("finding U20: every page fits a phone and logs are in sight", async ({
  page,
}) => {
  await logIn(page);
  const submit = (job) =>
    ask(page, "POST", "/jobs", jobFile({ name: freshName("phone"), ...job }));
  const failed = await submit({ command: "'echo oops >&2; exit 3'", tasks: 2 });
  await reach(page, failed, "FAILED");
  const running = await submit({
    command: "'echo hello; sleep 900'",
    tasks: 2,
  });
  await reach(page, running, "RUNNING");

  await page.setViewportSize(PHONE);
  const paths = [...PAGES, ...jobPages(failed), ...jobPages(running)];
  for (const path of paths) {
    await page.goto(path);
    await expectToFit(page, path);
  }
  const unseen = routes().filter(
    (route) => !paths.some((path) => matches(route, path)),
  );
  expect(unseen, "pages that this test does not open").toEqual([]);

  for (const width of WIDTHS) {
    await page.setViewportSize({ ...PHONE, width });
    for (const job of [failed, running])
      await expectLogsInSight(page, job, width);
  }
  await page.setViewportSize(PHONE);
  await page.getByRole("link", { name: "Logs of worker-1" }).click();
  await page.getByRole("log").getByText("hello").waitFor();
  await shoot(page, "phone-log");

  await expectDialogsToFit(page);
  await ask(page, "POST", `/jobs/${running.id}/stop`);
});

const PAGES = [
  "/",
  "/login",
  "/reset-password?user=mei&token=none",
  "/unsubscribe?token=none",
  "/forgot-password",
  "/confirm-email?token=none",
  "/device",
  "/device?code=BBBB-BBBB",
  "/jobs",
  "/jobs/compare",
  "/jobs/new",
  "/archive",
  "/archive/00000000-0000-7000-8000-000000000000",
  "/templates",
  "/templates/hello",
  "/cluster",
  "/cluster?view=list",
  "/virtual-clusters",
  ...[
    "cells",
    "queue",
    "history",
    "usage",
    "members",
    "storages",
    "audit",
    "settings",
  ].map((tab) => `/virtual-clusters/default?tab=${tab}`),
  "/usage",
  "/simulator",
  "/simulator/00000000-0000-7000-8000-000000000000",
  "/images",
  "/storages",
  "/storages/there-is-none",
  "/datasets",
  "/datasets/00000000-0000-7000-8000-000000000000",
  "/notifications",
  "/announcements",
  "/apps",
  "/apps/00000000-0000-7000-8000-000000000000",
  "/groups",
  "/users",
  "/tokens",
  "/audit",
  "/health",
  "/cells",
  "/profile",
  "/settings",
  "/settings/profile",
  "/settings/security",
  "/settings/tokens",
  "/settings/registries",
  "/settings/ssh-keys",
  "/settings/notifications",
  "/about",
  "/jobs/no/such/page",
];

function jobPages({ id }) {
  const tabs = [
    "tasks",
    "logs",
    "metrics",
    "attempts",
    "events",
    "spec",
    "terminal",
  ];
  return tabs.map((tab) => `/jobs/${id}?tab=${tab}`);
}

async function expectLogsInSight(page, job, width) {
  await page.goto(`/jobs/${job.id}?tab=tasks`);
  const link = page.getByRole("link", { name: "Logs of worker-1" });
  await link.waitFor();
  // In sight: nobody scrolled the table sideways, and what lies at its middle is the link.
  const seen = await link.evaluate((element) => {
    element.scrollIntoView({ block: "center", inline: "nearest" });
    for (let outer = element.parentElement; outer; outer = outer.parentElement)
      if (outer.scrollLeft > 0)
        return `scrolled sideways by ${outer.scrollLeft} px`;
    const { left, right, top, bottom } = element.getBoundingClientRect();
    if (left < 0 || right > document.documentElement.clientWidth)
      return `at ${left} to ${right}`;
    const there = document.elementFromPoint(
      (left + right) / 2,
      (top + bottom) / 2,
    );
    return element.contains(there)
      ? "in sight"
      : `below ${there?.outerHTML.slice(0, 100)}`;
  });
  expect(seen, `the link to the log at ${width} px`).toBe("in sight");
}

async function expectDialogsToFit(page) {
  await page.goto("/cluster");
  await page.getByRole("button", { name: /^node-1:/ }).click();
  const node = page.getByRole("dialog", { name: "node-1" });
  await node.getByText("Heartbeat").waitFor();
  await expectToFit(page, "the dialog of a node");
  await shoot(page, "phone-node");
  await node.getByRole("button", { name: "Drain", exact: true }).click();
  await page.getByRole("dialog", { name: /^Drain node-1/ }).waitFor();
  await expectToFit(page, "the dialog to drain a node");
}
