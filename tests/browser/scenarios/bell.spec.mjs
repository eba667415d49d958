import { ask, expect, freshName, jobFile, logIn, reach, shootBoth, test } from "../visitor.mjs";

const PASSWORD = "many-busy-bees";

/** The bell of a page that is open counts a failure, says what failed and why, and leads to the job;
 * what was read is not counted any more. */
test("the bell counts a failure and leads to it", async ({ page, browse }) => {
  const user = freshName("bell");
  await logIn(page);
  await ask(page, "POST", "/users", { username: user, password: PASSWORD });
  await ask(page, "PUT", `/virtual-clusters/default/members/${user}`, { role: "member" });

  await browse(async (own) => {
    await logIn(own, { user, password: PASSWORD });
    const bell = own.getByRole("button", { name: /^Notifications/ });
    await bell.click();
    await own.getByText("There are no notifications yet.").waitFor();
    await own.keyboard.press("Escape");

    const name = freshName("fails");
    const file = jobFile({ name, command: "'echo the disk is full >&2; exit 3'", gpus: 0 });
    const job = await ask(own, "POST", "/jobs", file);
    await reach(own, job, "FAILED");
    await expect(bell).toHaveAccessibleName("Notifications, 1 not read");
    await bell.click();
    const row = own.getByRole("listitem").getByRole("button").filter({ hasText: name });
    await row.waitFor();
    await shootBoth(own, "bell");
    await row.click();
    await own.waitForURL((url) => url.pathname === `/jobs/${job.id}`);
    await own.getByRole("heading", { name }).waitFor();
    await expect(bell).toHaveAccessibleName("Notifications");

    const other = freshName("fails");
    await reach(
      own,
      await ask(own, "POST", "/jobs", jobFile({ name: other, command: "exit 4", gpus: 0 })),
      "FAILED",
    );
    await expect(bell).toHaveAccessibleName(/not read/);
    await bell.click();
    await own.getByRole("button", { name: "Mark all as read" }).click();
    await expect(bell).toHaveAccessibleName("Notifications");
    await own.getByRole("link", { name: "All notifications" }).click();
    await own.getByRole("main").getByText(other).first().waitFor();
    await own.getByRole("main").getByText(name).first().waitFor();
    await shootBoth(own, "notifications");
  });
});
