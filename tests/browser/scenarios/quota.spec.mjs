import { expect, logIn, shoot, test } from "../visitor.mjs";

/** An administrator makes a virtual cluster, gives it GPUs, and is refused when there are not so
 * many. */
test("quotas are given and refused", async ({ page }) => {
  await logIn(page);
  await page.getByRole("link", { name: "Virtual clusters" }).click();
  const name = `team-${Date.now().toString(36)}`;
  await page.getByRole("button", { name: "New virtual cluster" }).click();
  await page.getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Create" }).click();

  await page.getByRole("heading", { name, exact: true }).waitFor();
  await setQuota(page, "9999");
  const refusal = page.getByRole("alert");
  await refusal.waitFor();
  expect(
    /\d/.test(await refusal.textContent()),
    "the refusal tells no number",
  ).toBeTruthy();

  await openSettings(page, "default");
  await setQuota(page, "12");
  await page.getByText("default: quotas saved").waitFor();

  await openSettings(page, name);
  await setQuota(page, "4");
  await page.getByText(`${name}: quotas saved`).waitFor();
  await tab(page, /^Members/);
  await page.getByPlaceholder("Add a member").click();
  await page.getByRole("option", { name: "admin" }).click();
  await page.getByRole("combobox", { name: "Role of admin" }).waitFor();

  await page.getByRole("link", { name: "Virtual clusters" }).first().click();
  const card = page.getByRole("listitem").filter({ hasText: name });
  await card.getByText("of 4 used").waitFor();
  await card.getByText("1 member").waitFor();
  await shoot(page, "virtual-clusters");

  await openSettings(page, name);
  await page
    .getByRole("button", { name: "Delete this virtual cluster" })
    .click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByText(`${name} is deleted`).waitFor();
  await openSettings(page, "default");
  // The word of the first time may still stand.
  const saved = page.waitForResponse(
    (response) => response.request().method() === "PUT",
  );
  await setQuota(page, "16");
  expect((await saved).ok(), "default did not get its GPUs back").toBeTruthy();
});

async function openSettings(page, name) {
  await page.getByRole("link", { name: "Virtual clusters" }).first().click();
  await page.getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { name, exact: true }).waitFor();
  await tab(page, "Settings");
}

async function tab(page, name) {
  const tabs = page.getByRole("navigation", {
    name: "About this virtual cluster",
  });
  await tabs.getByRole("link", { name }).click();
}

async function setQuota(page, gpus) {
  const save = page.getByRole("button", { name: "Save quotas" });
  await save.waitFor();
  const field = page.getByRole("textbox", { name: "A100-SXM4-80GB" });
  if ((await field.count()) === 0) {
    await page.getByPlaceholder("Add a GPU model").click();
    await page.getByRole("option").first().click();
  }
  await field.fill(gpus);
  await save.click();
}
