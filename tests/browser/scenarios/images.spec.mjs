import { ask, expect, freshName, logIn, shoot, test } from "../visitor.mjs";

/** A VC admin adds an image of the own team; an admin has nodes pull one, and sees where it is. */
test("images are kept by VC admins and pulled to nodes in advance", async ({ page, browse }) => {
  await logIn(page);
  const name = freshName("busybox");
  await page.goto("/images");
  await page.getByRole("button", { name: "Add an image" }).click();
  await page.getByLabel("Name", { exact: true }).fill(name);
  await page.getByLabel("Reference").fill(process.env.SKEP_PREFETCHED);
  await page.getByRole("button", { name: "Add", exact: true }).click();

  await page.getByRole("button", { name: `Prefetch ${name}` }).click();
  const dialog = page.getByRole("dialog", { name: `Prefetch ${name}` });
  await dialog.waitFor();
  await shoot(page, "prefetch-dialog");
  await dialog.getByRole("button", { name: "Prefetch" }).click();
  const row = page.getByRole("region", { name: "Prefetches" }).getByRole("row", { name });
  await row.getByText("2 done").waitFor({ timeout: 60_000 });
  await page.getByRole("button", { name: `Nodes that hold ${name}` }).waitFor();
  await row.getByRole("button", { name, exact: true }).click();
  await page.getByRole("dialog").getByText("node-1").waitFor();
  await shoot(page, "prefetch-nodes");
  await page.keyboard.press("Escape");
  await shoot(page, "images");
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  await shoot(page, "images-phone");

  const carla = { user: freshName("carla"), password: "many-busy-bees" };
  const account = { username: carla.user, password: carla.password };
  await ask(page, "POST", "/users", account);
  const member = `/virtual-clusters/default/members/${carla.user}`;
  await ask(page, "PUT", member, { role: "admin" });
  await browse(async (other) => {
    await logIn(other, carla);
    await other.goto("/images");
    await other.getByRole("row", { name }).waitFor();
    expect(await other.getByRole("button", { name: `Edit ${name}` }).count()).toBe(0);
    await other.getByRole("button", { name: "Add an image" }).click();
    const short = `default-${name}`;
    await other.getByLabel("Name", { exact: true }).fill(short);
    await other.getByLabel("Reference").fill("team/own:1");
    await other.getByRole("button", { name: "Add", exact: true }).click();
    const own = other.getByRole("row", { name: short });
    await own.getByText("default", { exact: true }).waitFor();
    await own.getByRole("button", { name: `Edit ${short}` }).click();
    await other.getByLabel("Description").fill("for our training");
    await other.getByRole("button", { name: "Save" }).click();
    await own.getByText("for our training").waitFor();
    await shoot(other, "images-vc-admin");
  });
});
