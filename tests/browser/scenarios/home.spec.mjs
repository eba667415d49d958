import {
  ask,
  axe,
  expect,
  freshName,
  jobFile,
  logIn,
  shoot,
  test,
} from "../visitor.mjs";

const PASSWORD = "many-busy-bees";

/** What a user sees first: own jobs with their reasons, free GPUs and usage, on a phone too. The user
 * is a new one, whose Home shows none of the jobs of other scenarios. */
test("home shows what runs, what waits and why, and what failed", async ({
  page,
  browse,
}) => {
  await logIn(page);
  const user = freshName("nina");
  await ask(page, "POST", "/users", { username: user, password: PASSWORD });
  await ask(page, "PUT", `/virtual-clusters/default/members/${user}`, {
    role: "member",
  });
  await browse((own) => seeHome(own, { user, password: PASSWORD }));
});

async function seeHome(page, login) {
  await logIn(page, login);
  await page.getByRole("region", { name: "Your first job" }).waitFor();
  await shoot(page, "home-first");

  const size = { gpus: 8, tasks: 2 };
  const holder = freshName("holds");
  const waits = freshName("waits");
  const fails = freshName("fails");
  const first = await ask(
    page,
    "POST",
    "/jobs",
    jobFile({ name: holder, command: "sleep 600", ...size }),
  );
  await page
    .getByRole("region", { name: "Running" })
    .getByRole("link", { name: holder })
    .waitFor();
  const second = await ask(
    page,
    "POST",
    "/jobs",
    jobFile({ name: waits, command: "sleep 0", ...size }),
  );
  await page
    .getByRole("region", { name: "Waiting" })
    .getByText(/Needs 2 nodes of 8/)
    .waitFor();
  await ask(
    page,
    "POST",
    "/jobs",
    jobFile({ name: fails, command: "no-such-program", gpus: 0 }),
  );
  const failed = page.getByRole("region", { name: "Failed last" });
  await failed.getByRole("link", { name: fails }).waitFor();
  await page
    .getByRole("region", { name: "Free GPUs now" })
    .getByText(/of 16/)
    .waitFor();
  await shoot(page, "home");
  expect(await axe(page)).toEqual([]);

  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  await shoot(page, "home-phone");
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(390);

  await failed.getByRole("link", { name: fails }).click();
  await page.getByRole("heading", { name: fails }).waitFor();
  for (const job of [first, second])
    await ask(page, "POST", `/jobs/${job.id}/stop`);
}
