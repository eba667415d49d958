import { axe, expect, logIn, shoot, test } from "../visitor.mjs";

const KEY =
  "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";

/** A public key is added, shown by its fingerprint, and removed. */
test("ssh keys are kept in the settings", async ({ page }) => {
  await logIn(page);
  await page.goto("/settings/ssh-keys");
  await page.getByRole("button", { name: "Add a key" }).click();
  const form = page.getByRole("dialog", { name: "Add an ssh key" });
  await form.getByLabel("Public key").fill("-----BEGIN OPENSSH PRIVATE KEY-----");
  await form.getByLabel("Name").fill("laptop");
  await form.getByRole("button", { name: "Add", exact: true }).click();
  await form.getByText(/private key, which stays with you/).waitFor();
  await form.getByLabel("Public key").fill(`${KEY} mei@laptop`);
  await shoot(page, "ssh-key-new");
  await form.getByRole("button", { name: "Add", exact: true }).click();
  const list = page.getByRole("list", { name: "SSH keys" });
  await list
    .getByText(/SHA256:fe85JkIjo8VPe\+XqXJGH5Mau1EMFdK1OdKvJUFicyA8/)
    .waitFor();
  await shoot(page, "ssh-keys");
  expect(await axe(page)).toEqual([]);
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  await shoot(page, "ssh-keys-phone");
  await page.getByRole("button", { name: "Remove the key laptop" }).click();
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await page.getByText("There are none.").waitFor();
});
