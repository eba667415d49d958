import { existsSync, readFileSync, rmSync } from "node:fs";
import { ask, expect, freshName, logIn, shoot, test } from "../visitor.mjs";

const FIRST = "first-word-of-ada";
const NEW = "second-word-of-ada";

/** A user confirms an e-mail address, forgets the password, and sets a new one by the link that
 * comes to it. */
test("who forgot the password sets a new one by e-mail", async ({ page, browse }) => {
  const user = freshName("ada");
  const address = `${user}@example.org`;
  await logIn(page);
  await ask(page, "POST", "/users", { username: user, password: FIRST, email: address });

  await browse(async (own) => {
    await logIn(own, { user, password: FIRST });
    await own.goto("/settings/profile");
    await own.getByText("(not confirmed)").waitFor();
    await shoot(own, "email-not-confirmed");
    await own.getByRole("button", { name: "Confirm or change" }).click();
    await own.getByRole("button", { name: "Send a link" }).click();
    await own.goto(pathOf(await link("/confirm-email")));
    await own.getByRole("button", { name: "Confirm the address" }).waitFor();
    await shoot(own, "email-confirm");
    await own.getByRole("button", { name: "Confirm the address" }).click();
    await own.getByText("(confirmed)").waitFor();
    await shoot(own, "email-confirmed");
  });

  for (const [colorScheme, width] of [
    ["light", 1440],
    ["dark", 390],
  ])
    await browse(
      async (other) => {
        await other.setViewportSize({ width, height: 900 });
        await other.goto("/login");
        await other.getByRole("link", { name: "Forgot the password?" }).waitFor();
        await shoot(other, `login-recovery-${colorScheme}`);
        await other.getByRole("link", { name: "Forgot the password?" }).click();
        await other.getByLabel("User name or e-mail address").fill(address);
        await shoot(other, `forgot-${colorScheme}`);
        await other.getByRole("button", { name: "Send the link" }).click();
        await other.getByText("is on its way").waitFor();
        await shoot(other, `forgot-sent-${colorScheme}`);
        await other.goto(pathOf(await link("/reset-password")));
        await other.getByLabel("New password").fill(NEW);
        await other.getByRole("button", { name: "Set the password" }).click();
        await other.getByRole("status").getByRole("link", { name: "Log in" }).waitFor();
        await logIn(other, { user, password: NEW });
      },
      { colorScheme },
    );
});

/** The address of a page in the newest e-mail, once there is one; the e-mail is then removed. */
async function link(path) {
  const pattern = new RegExp(`http\\S*${path}\\?\\S+`);
  const find = () => (existsSync(file) ? pattern.exec(readFileSync(file, "utf8"))?.[0] : undefined);
  await expect.poll(find, { timeout: 60_000 }).toBeTruthy();
  const found = find();
  rmSync(file);
  return found;
}

const file = process.env.SKEP_MAIL ?? "";

function pathOf(address) {
  const { pathname, search } = new URL(address);
  return pathname + search;
}
