import { ask, expect, freshName, logIn, shootBoth, test } from "../visitor.mjs";

const PASSWORD = "many-busy-bees";
const ISSUER = process.env.SKEP_ISSUER;

/** A user links the own account to that at the identity provider, logs in with it, and ends the
 * link. */
test("an account is linked to single sign-on in the settings", async ({ page, browse }) => {
  const user = freshName("sso");
  await logIn(page);
  await ask(page, "POST", "/users", { username: user, password: PASSWORD });
  const account = { sub: user, preferred_username: freshName("elsewhere") };
  const put = { method: "PUT", body: JSON.stringify(account) };
  expect((await fetch(`${ISSUER}/account`, put)).ok).toBeTruthy();

  await browse(async (own) => {
    await logIn(own, { user, password: PASSWORD });
    await own.goto("/settings/security");
    const link = own.getByRole("button", { name: "Link Example ID" });
    await link.scrollIntoViewIfNeeded();
    await shootBoth(own, "sso-unlinked");
    await link.click();
    await own.getByText("Your account of Example ID logs you in here.").waitFor();
    await own.getByRole("button", { name: "Unlink", exact: true }).scrollIntoViewIfNeeded();
    await shootBoth(own, "sso-linked");
  });

  await browse(async (own) => {
    await own.goto("/login");
    const button = own.getByRole("link", { name: "Log in with Example ID" });
    await button.waitFor();
    await shootBoth(own, "sso-login");
    await button.click();
    await own.getByRole("heading", { name: "Home", exact: true }).waitFor();
    expect((await ask(own, "GET", "/me")).username).toBe(user);

    await own.goto("/settings/security");
    await own.getByRole("button", { name: "Unlink", exact: true }).click();
    await own.getByRole("dialog").getByRole("button", { name: "Unlink", exact: true }).click();
    await own.getByRole("button", { name: "Link Example ID" }).waitFor();
  });
});
