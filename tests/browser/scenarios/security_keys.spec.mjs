import {
  ask,
  expect,
  freshName,
  logIn,
  settings,
  shoot,
  test,
} from "../visitor.mjs";

const password = "many-busy-bees-again";

/** A key is added, named, asked for after the password and removed; a passkey logs in alone. Keys
 * need a name of a host: the page is opened at localhost. */
test("security keys and passkeys log in", async ({ page }) => {
  const user = freshName("keys");
  await logIn(page);
  await ask(page, "POST", "/users", { username: user, password });
  const { port } = new URL(settings.url);
  const at = (path) => `http://localhost:${port}${path}`;
  await page.goto(at("/login"));

  const devtools = await page.context().newCDPSession(page);
  await devtools.send("WebAuthn.enable");
  await devtools.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  await enter(page, user);
  await atHome(page);
  await page.goto(at("/settings/security"));
  await page.getByRole("button", { name: "Add a key" }).click();
  await page.getByLabel("Name").fill("laptop");
  await page.getByLabel(/Also log in without a password/).check();
  await shoot(page, "security-key-add");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("button", { name: "I have kept them" }).click();
  await expect(page.getByText("passkey · added")).toBeVisible();
  await page.getByRole("button", { name: "Rename laptop" }).click();
  await page.getByLabel("Name", { exact: true }).fill("work laptop");
  await page.getByRole("button", { name: "Rename", exact: true }).click();
  await expect(page.getByText("work laptop")).toBeVisible();
  await shoot(page, "security-keys");

  await leave(page, user);
  await enter(page, user); // and the key, which the browser uses by itself
  await atHome(page);
  await leave(page, user);
  await shoot(page, "login-passkey");
  await page.getByRole("button", { name: "Use a passkey" }).click();
  await atHome(page);
  await expect(
    page.getByRole("button", { name: new RegExp(user) }),
  ).toBeVisible();

  await page.goto(at("/settings/security"));
  await page.getByRole("button", { name: "Remove work laptop" }).click();
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await expect(page.getByText("You have none.")).toBeVisible();
});

async function enter(page, user) {
  await page.getByLabel("User name").fill(user);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Log in", exact: true }).click();
}

async function atHome(page) {
  await page.getByRole("heading", { name: "Home", exact: true }).waitFor();
}

async function leave(page, user) {
  await page.getByRole("button", { name: new RegExp(user) }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await page.waitForURL(/\/login/);
}
