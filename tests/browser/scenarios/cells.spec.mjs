import { ask, expect, logIn, shoot, test } from "../visitor.mjs";

const PASSWORD = "many-busy-bees";

/** An administrator gives a team a node, is shown with numbers that it does not fit, takes GPUs from
 * another team, and saves; a member of the team then sees what it owns. */
test("cells are given where they fit and a member sees them", async ({
  browse,
}) => {
  const team = `team-${Date.now().toString(36)}`;
  const member = `ola-${Date.now().toString(36)}`;
  await browse(async (page) => {
    await logIn(page);
    await found(page, team, member);
    await page.getByRole("link", { name: "Cells", exact: true }).click();
    await page.getByText("The assignment fits").waitFor();

    const nodes = page.getByRole("spinbutton", {
      name: new RegExp(`^${team}: node of 8 `),
    });
    await nodes.fill("1");
    await page.getByText("It does not fit").waitFor();
    const explanation = page
      .getByRole("complementary")
      .getByRole("listitem")
      .getByRole("button")
      .first();
    expect(
      /\d/.test(await explanation.textContent()),
      "the refusal has no number",
    ).toBeTruthy();
    const save = page.getByRole("button", { name: "Save 1 change" });
    expect(
      await save.isDisabled(),
      "what does not fit can be saved",
    ).toBeTruthy();
    await shoot(page, "cells-refused");

    await page
      .getByRole("spinbutton", { name: /^default: .* by count$/ })
      .fill("8");
    await page.getByText("It fits").waitFor();
    await shoot(page, "cells");
    await page.getByRole("link", { name: "Jobs", exact: true }).click();
    await page.getByRole("dialog", { name: "Leave without saving?" }).waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Save 2 changes" }).click();
    await page.getByText("Saved. Nothing was moved or ended.").waitFor();
    await page.getByText("The assignment fits").waitFor();
    expect(
      (await nodes.inputValue()) === "1",
      "the saved number is not shown",
    ).toBeTruthy();
  });

  await browse(async (page) => {
    await logIn(page, { user: member, password: PASSWORD });
    await page.getByRole("link", { name: "Virtual clusters" }).click();
    const card = page.getByRole("listitem").filter({ hasText: team });
    await card.getByText("of 8 used").waitFor();
    expect(
      (await page.getByRole("link", { name: "Cells", exact: true }).count()) ===
        0,
    ).toBeTruthy();
  });

  await browse(async (page) => {
    await logIn(page);
    await ask(page, "DELETE", `/virtual-clusters/${team}`);
    const { gpus } = await ask(page, "GET", "/cluster");
    const quotas = Object.fromEntries(
      Object.entries(gpus).map(([name, of]) => [name, of.total]),
    );
    await ask(page, "PUT", "/virtual-clusters/default/quotas", { quotas });
  });
});

async function found(page, team, member) {
  const user = { username: member, password: PASSWORD };
  await ask(page, "POST", "/virtual-clusters", { name: team, description: "" });
  await ask(page, "POST", "/users", user);
  await ask(page, "PUT", `/virtual-clusters/${team}/members/${member}`, {
    role: "member",
  });
}
