import { ask, expect, freshName, jobFile, logIn, reach, shootBoth, test } from "../visitor.mjs";

const PASSWORD = "many-busy-bees";
// Simulated GPUs always work, but never at 100 %.
const RULE = { idle_minutes: 1, idle_percent: 100, idle_grace_minutes: 0 };

/** A job that leaves its GPUs idle for a minute is warned: among its events and at the bell of its
 * owner. A VC admin exempts it on its page, which its owner sees and cannot change. */
test("an idle job is warned, and exempted on its page", async ({ page, browse }) => {
  const [team, owner] = [freshName("idle"), freshName("idler")];
  await logIn(page);
  await ask(page, "POST", "/users", { username: owner, password: PASSWORD });
  await ask(page, "POST", "/virtual-clusters", { name: team });
  await ask(page, "PUT", `/virtual-clusters/${team}/members/${owner}`, { role: "member" });
  for (const [limit, value] of Object.entries(RULE))
    await ask(page, "PUT", `/virtual-clusters/${team}/limits/${limit}`, { value });

  await browse(async (own) => {
    await logIn(own, { user: owner, password: PASSWORD });
    const name = freshName("idles");
    const file = jobFile({ name, command: "sleep 900" });
    const mine = file.replace("virtualCluster: default", `virtualCluster: ${team}`);
    const job = await ask(own, "POST", "/jobs", `${mine}extras: {hivedScheduler: {jobPriorityClass: oppo}}\n`);
    await reach(own, job, "RUNNING");

    await own.goto(`/jobs/${job.id}?tab=events`);
    const warning = /stayed below 100 % utilisation for 1 min/;
    await own.getByText(warning).first().waitFor({ timeout: 200_000 });
    const bell = own.getByRole("button", { name: /^Notifications/ });
    await expect(bell).toHaveAccessibleName("Notifications, 1 not read");
    await bell.click();
    await own.getByRole("listitem").getByRole("button").filter({ hasText: warning }).waitFor();
    await shootBoth(own, "idle-warning");

    await page.goto(`/jobs/${job.id}`);
    await page.getByRole("button", { name: "as its virtual cluster says" }).click();
    await page.getByRole("menu").waitFor();
    await shootBoth(page, "idle-menu");
    await page.getByRole("menuitem", { name: "This one may keep its GPUs" }).click();
    await page.getByRole("button", { name: "exempt", exact: true }).waitFor();

    await own.goto(`/jobs/${job.id}`);
    await own.getByText("exempt", { exact: true }).waitFor();
    await expect(own.getByRole("button", { name: "exempt", exact: true })).toHaveCount(0);
    await ask(own, "POST", `/jobs/${job.id}/stop`);
    await reach(own, job, "STOPPED");
  });
});
