import { ask, browse, expect, freshName, logIn, settings, shoot } from "../visitor.mjs";

const PASSWORD = "many-busy-bees";
const FORGOTTEN = "another-busy-hive";

/** An admin makes people, one of whom manages a team: brings somebody in, opens the team's jobs, takes
 * somebody out. The admin makes a link for a forgotten password and deletes an account. Who is in no
 * team is told whom to ask. */
export default async () => {
  const [team, boss, bee] = [freshName("team"), freshName("boss"), freshName("bee")];
  let link = "";

  await browse(async (page) => {
    await logIn(page);
    for (const username of [boss, bee]) {
      await ask(page, "POST", "/users", { username, password: PASSWORD });
    }
    await ask(page, "POST", "/virtual-clusters", { name: team });
    await ask(page, "PUT", `/virtual-clusters/${team}/members/${boss}`, { role: "manager" });
    await page.goto("/users");
    await page.getByRole("button", { name: `Reset the password of ${bee}` }).click();
    link = await page.getByLabel("Link", { exact: true }).textContent();
    await shoot(page, "users");
  });

  await browse(async (page) => {
    await logIn(page, { user: bee, password: PASSWORD });
    await page.getByText("You are in no virtual cluster yet").waitFor();
    expect((await page.getByRole("link", { name: "New job" }).count()) === 0, "it is invited");
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
      await page.getByText("It is the last manager").waitFor();
      await page.getByRole("button", { name: "Cancel" }).click();
      await page.goto(`/virtual-clusters/${team}?tab=settings`);
      await page.getByText("All members", { exact: true }).click();
      await page.getByText("Who sees its jobs is changed").waitFor();
      await shoot(page, "vc-settings");
      const changed = await ask(page, "GET", `/virtual-clusters/${team}`);
      expect(changed.job_visibility === "members", "its jobs are not open to members");
      expect((await page.getByText("Delete this virtual cluster").count()) === 0, "it may delete");
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
    await page.getByRole("button", { name: `Delete ${bee}` }).waitFor({ state: "detached" });
    await page.goto("/profile");
    await page.getByRole("button", { name: "New token" }).click();
    await shoot(page, "profile");
    expect(settings.user !== bee, "the visitor is deleted");
  });
};
