import {
  ask,
  expect,
  freshName,
  logIn,
  settings,
  shoot,
  test,
} from "../visitor.mjs";

const PASSWORD = "many-busy-bees";
const FORGOTTEN = "another-busy-hive";

/** An admin makes people, one of whom manages a team: brings somebody in, opens the team's jobs, takes
 * somebody out. The admin makes a link for a forgotten password and deletes an account. Who is in no
 * team sees whom to ask. */
test("finding U12: a VC admin runs a team and admins look after people", async ({
  browse,
}) => {
  const [team, boss, bee] = [
    freshName("team"),
    freshName("boss"),
    freshName("bee"),
  ];
  let link = "";

  await browse(async (page) => {
    await logIn(page);
    for (const username of [boss, bee]) {
      await ask(page, "POST", "/users", { username, password: PASSWORD });
    }
    await ask(page, "POST", "/virtual-clusters", { name: team });
    await ask(page, "PUT", `/virtual-clusters/${team}/members/${boss}`, {
      role: "admin",
    });
    await page.goto("/users");
    await page
      .getByRole("button", { name: `Reset the password of ${bee}` })
      .click();
    link = await page.getByLabel("Link", { exact: true }).textContent();
    await shoot(page, "users");
  });

  await browse(async (page) => {
    await logIn(page, { user: bee, password: PASSWORD });
    await page.getByText("You are in no virtual cluster yet").waitFor();
    expect(
      (await page.getByRole("link", { name: "New job" }).count()) === 0,
      "it is invited",
    ).toBeTruthy();
    await shoot(page, "outside");
  });

  await browse(
    async (page) => {
      await logIn(page, { user: boss, password: PASSWORD });
      await page.goto(`/virtual-clusters/${team}?tab=members`);
      await page.getByLabel("User name of a new member").fill(bee);
      await page.getByRole("button", { name: "Add", exact: true }).click();
      await page.getByLabel(`Role of ${bee}`).first().waitFor();
      await shoot(page, "members");
      await page.getByRole("button", { name: `Take ${boss} out` }).click();
      await page.getByText("It is the last VC admin").waitFor();
      await page.getByRole("button", { name: "Cancel" }).click();
      await page.goto(`/virtual-clusters/${team}?tab=settings`);
      await page.getByText("Members", { exact: true }).click();
      await page.getByText("Job visibility changed").waitFor();
      await shoot(page, "vc-settings");
      const changed = await ask(page, "GET", `/virtual-clusters/${team}`);
      expect(
        changed.job_visibility === "members",
        "its jobs are not open to members",
      ).toBeTruthy();
      expect(
        (await page.getByText("Delete this virtual cluster").count()) === 0,
        "it may delete",
      ).toBeTruthy();
    },
    { colorScheme: "dark" },
  );

  // A login of meanwhile has ended the first link.
  await browse(async (page) => {
    await page.goto(new URL(link).pathname + new URL(link).search);
    await page.getByLabel("New password", { exact: true }).fill(FORGOTTEN);
    await page.getByRole("button", { name: "Set the password" }).click();
    await page.getByRole("alert").waitFor();
    await logIn(page);
    const fresh = await ask(page, "POST", `/users/${bee}/reset-link`);
    await page.goto(new URL(fresh.url).pathname + new URL(fresh.url).search);
    await page.getByLabel("New password", { exact: true }).fill(FORGOTTEN);
    await shoot(page, "reset");
    await page.getByRole("button", { name: "Set the password" }).click();
    await page.getByText("Your password is set").waitFor();
    await page.goto("/users");
    await page.getByRole("button", { name: `Delete ${bee}` }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page
      .getByRole("button", { name: `Delete ${bee}` })
      .waitFor({ state: "detached" });
    await page.goto("/settings/tokens");
    await page.getByRole("button", { name: "New token" }).click();
    await shoot(page, "profile");
    expect(settings.user !== bee, "the visitor is deleted").toBeTruthy();
  });
});
