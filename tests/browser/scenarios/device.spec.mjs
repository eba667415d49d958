import { expect, logIn, settings, shoot, test } from "../visitor.mjs";

/** A program asks to be logged in; its user sees who asks and allows it with a smaller scope, or
 * denies it. */
test("a program is logged in by the browser", async ({ page, browse }) => {
  const first = await begin();
  await page.goto(pathOf(first.verification_uri_complete));
  await page.waitForURL(/\/login\?next=/);
  await page.getByLabel("User name").fill(settings.user);
  await page.getByLabel("Password", { exact: true }).fill(settings.password);
  await page.getByRole("button", { name: "Log in", exact: true }).click();
  await page.getByText("skep on a-laptop").waitFor();
  await page.getByText("127.0.0.1").waitFor();
  await shoot(page, "device-light");
  await page.getByRole("combobox", { name: "It may" }).click();
  await page.getByRole("option", { name: "Read only" }).click();
  await page.getByRole("button", { name: "Allow" }).click();
  await page.getByText("Allowed:").waitFor();
  const token = await ask("/auth/device/token", { device_code: first.device_code });
  expect(token.scope).toBe("read");

  const second = await begin();
  await browse(
    async (phone) => {
      await phone.setViewportSize({ width: 390, height: 844 });
      await logIn(phone);
      await phone.goto("/device");
      await phone.getByLabel("Code").fill(second.user_code.toLowerCase());
      await phone.getByRole("button", { name: "Continue" }).click();
      await phone.getByRole("button", { name: "Deny" }).waitFor();
      await shoot(phone, "device-dark");
      await phone.getByRole("button", { name: "Deny" }).click();
      await phone.getByText("Denied:").waitFor();
    },
    { colorScheme: "dark" },
  );
  const refused = await ask("/auth/device/token", { device_code: second.device_code });
  expect(refused.code).toBe("access_denied");

  await page.goto("/settings/tokens");
  await page.getByRole("button", { name: "Revoke skep on a-laptop" }).click();
  await page.getByRole("button", { name: "Revoke", exact: true }).click();
});

function begin() {
  return ask("/auth/device", { name: "skep on a-laptop", scope: "submit" });
}

async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  const request = { method: "POST", headers, body: JSON.stringify(body) };
  return (await fetch(`${settings.url}/api/v1${path}`, request)).json();
}

function pathOf(address) {
  const { pathname, search } = new URL(address);
  return pathname + search;
}
