import { ask, freshName, logIn, shoot, test } from "../visitor.mjs";

/** An admin makes a group, brings its users in from a file, and gives the group a role; the members of
 * the virtual cluster then show where their role comes from. */
test("groups give roles, and a file brings people into them", async ({
  browse,
}) => {
  const [team, group, bee] = [
    freshName("team"),
    freshName("group"),
    freshName("bee"),
  ];
  await browse(async (page) => {
    await logIn(page);
    await ask(page, "POST", "/virtual-clusters", { name: team });
    await page.goto("/groups");
    await page.getByRole("button", { name: "New group" }).click();
    await page.getByLabel("Name", { exact: true }).fill(group);
    await page.getByLabel("Description").fill("Research staff");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText(group, { exact: true }).waitFor();

    await page.goto("/users");
    await page.getByRole("button", { name: "Import" }).click();
    const file = page.getByRole("textbox", { name: "CSV" });
    await file.fill(`username,groups\n${bee},no-such-group\n`);
    await page
      .getByText("Line 2, groups: There is no group named no-such-group.")
      .waitFor();
    await file.fill(`username,groups\n${bee},${group}\n`);
    await page.getByText("1 user will be created, 0 known.").waitFor();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: "Import" })
      .click();
    await page.getByLabel("Links", { exact: true }).waitFor();
    await shoot(page, "import");

    await page.goto("/groups");
    await page.getByRole("button", { name: `1 user of ${group}` }).click();
    await page.getByText(bee, { exact: true }).waitFor();
    await shoot(page, "groups");

    await page.goto(`/virtual-clusters/${team}?tab=members`);
    await page.getByRole("combobox", { name: "Add a group" }).click();
    await page.getByRole("option", { name: group }).click();
    await page.getByText(`by ${group}`).waitFor();
    await shoot(page, "group-role");
    await page
      .getByRole("button", { name: `Take the group ${group} out` })
      .click();
    await page.getByRole("button", { name: "Take out", exact: true }).click();
    await page.getByText(`by ${group}`).waitFor({ state: "detached" });
  });
});
