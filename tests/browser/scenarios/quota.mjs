import { browse, expect, logIn, shoot } from "../visitor.mjs";

/** An administrator makes a virtual cluster, gives it GPUs, and is told when there are not so
 * many. */
export default () =>
  browse(async (page) => {
    await logIn(page);
    await page.getByRole("link", { name: "Virtual clusters" }).click();
    const name = `team-${Date.now().toString(36)}`;
    await page.getByRole("button", { name: "New virtual cluster" }).click();
    await page.getByLabel("Name").fill(name);
    await page.getByRole("button", { name: "Create" }).click();

    const drawer = page.getByRole("dialog", { name });
    await setQuota(drawer, page, "9999");
    const refusal = drawer.getByRole("alert");
    await refusal.waitFor();
    expect(/\d/.test(await refusal.textContent()), "the refusal tells no number");

    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "default", exact: true }).click();
    const first = page.getByRole("dialog", { name: "default" });
    await first.getByRole("textbox", { name: "A100-SXM4-80GB" }).fill("12");
    await first.getByRole("button", { name: "Save quotas" }).click();
    await page.getByText("default: quotas saved").waitFor();
    await page.keyboard.press("Escape");

    await page.getByRole("button", { name, exact: true }).click();
    await setQuota(drawer, page, "4");
    await page.getByText(`${name}: quotas saved`).waitFor();
    await drawer.getByPlaceholder("Add a member").click();
    await page.getByRole("option", { name: "admin" }).click();
    await drawer.getByText("admin", { exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("listitem").filter({ hasText: name }).getByText("of 4 used").waitFor();
    await page.getByRole("listitem").filter({ hasText: name }).getByText("1 member").waitFor();
    await shoot(page, "virtual-clusters");
    await page.getByRole("button", { name, exact: true }).click();
    await drawer.getByRole("button", { name: "Delete this virtual cluster" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByText(`${name} is deleted`).waitFor();
    await page.getByRole("button", { name: "default", exact: true }).click();
    await setQuota(first, page, "16");
    await page.getByText("default: quotas saved").last().waitFor();
  });

async function setQuota(drawer, page, gpus) {
  await drawer.getByRole("button", { name: "Save quotas" }).waitFor(); // the drawer slides in
  const field = drawer.getByRole("textbox", { name: "A100-SXM4-80GB" });
  if ((await field.count()) === 0) {
    await drawer.getByPlaceholder("Add a GPU model").click();
    await page.getByRole("option").first().click();
  }
  await field.fill(gpus);
  await drawer.getByRole("button", { name: "Save quotas" }).click();
}
