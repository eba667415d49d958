import { expect, logIn, shoot, test } from "../visitor.mjs";

test.use({ colorScheme: "dark" });

/** Every node and GPU is there; a node is cordoned and comes back; the join command is shown. */
test("the cluster shows every gpu and nodes are cordoned", async ({ page }) => {
  await logIn(page);
  await page.getByRole("link", { name: "Cluster", exact: true }).click();
  await page.locator("[data-gpu]").first().waitFor();
  const gpus = await page.locator("[data-gpu]").count();
  expect(gpus === 16, `${gpus} GPUs are shown, not 16`).toBeTruthy();
  await page.locator("[data-gpu]").nth(3).hover();
  await page.getByRole("tooltip").getByText(/^GPU-/).waitFor();
  await shoot(page, "cluster");

  await page.getByRole("button", { name: /^node-1/ }).click();
  const drawer = page.getByRole("dialog", { name: "node-1" });
  await drawer.getByRole("button", { name: "Cordon", exact: true }).click();
  const question = page.getByRole("dialog", { name: "Cordon node-1?" });
  await question.getByText("No job runs here.").waitFor();
  await question.getByRole("button", { name: "Cordon node-1" }).click();
  await drawer.getByRole("button", { name: "Uncordon" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: /^node-1: cordoned/ }).click();
  await drawer.getByRole("button", { name: "Uncordon" }).click();
  await drawer.getByRole("button", { name: "Cordon", exact: true }).waitFor();
  await page.keyboard.press("Escape");

  await page.getByRole("button", { name: "Add a node" }).click();
  const command = page.getByLabel("Join command", { exact: true });
  await command.waitFor();
  expect(
    (await command.textContent()).startsWith("skep-agent join"),
    "no join command",
  ).toBeTruthy();
});
