import { expect, logIn, settings, shoot, test } from "../visitor.mjs";

/** A page behind the login is reached after it; a wrong password is refused; a token is made and
 * revoked; after the logout nothing is left to see. */
test("sessions and tokens begin and end", async ({ page, browse }) => {
  await page.goto("/cluster");
  await page.waitForURL(/\/login\?next=/);
  await page.getByLabel("User name").fill(settings.user);
  await page.getByLabel("Password", { exact: true }).fill("not it");
  await page.getByRole("button", { name: "Log in", exact: true }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Password", { exact: true }).fill(settings.password);
  await page.getByRole("button", { name: "Log in", exact: true }).click();
  await page.getByRole("heading", { name: "Cluster" }).waitFor();

  await page.goto("/settings/tokens");
  await page.getByRole("button", { name: "New token" }).click();
  await page.getByLabel("Name").fill("laptop");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const token = await page.getByLabel("Token", { exact: true }).textContent();
  const me = () =>
    fetch(`${settings.url}/api/v1/me`, {
      headers: { Authorization: `Bearer ${token}` },
    });
  expect(
    (await me()).status === 200,
    "the new token does not work",
  ).toBeTruthy();
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("button", { name: "Revoke laptop" }).click();
  await page.getByRole("button", { name: "Revoke", exact: true }).click();
  await page
    .getByRole("button", { name: "Revoke laptop" })
    .waitFor({ state: "detached" });
  expect(
    (await me()).status === 401,
    "the revoked token still works",
  ).toBeTruthy();

  await browse(
    async (other) => {
      await other.setViewportSize({ width: 390, height: 844 });
      await logIn(other);
      await page.goto("/settings/security");
      await page.getByText("this session").waitFor();
      await shoot(page, "sessions-light");
      await other.goto("/settings/security");
      await other.getByText("this session").scrollIntoViewIfNeeded();
      await shoot(other, "sessions-dark");
      await page.getByRole("button", { name: "End all others" }).click();
      await page.getByRole("button", { name: "End them" }).click();
      await page.getByRole("button", { name: "End all others" }).waitFor({ state: "detached" });
      await other.goto("/jobs");
      await other.waitForURL(/\/login\?next=/);
    },
    { colorScheme: "dark" },
  );

  await page.getByRole("button", { name: new RegExp(settings.user) }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await page.waitForURL(/\/login/);
  await page.goto("/jobs");
  await page.waitForURL(/\/login\?next=/);
  await logIn(page);
});
