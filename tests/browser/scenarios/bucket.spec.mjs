import { axe, expect, freshName, logIn, shoot, test } from "../visitor.mjs";

/** An admin adds a bucket; its keys are written once and never shown again. */
test("a bucket as a storage", async ({ page, browser }) => {
  const name = freshName("sets");
  await logIn(page);
  await page.goto("/storages");
  await page.getByRole("button", { name: "Add a storage" }).click();
  await page.getByLabel("Name", { exact: true }).fill(name);
  await page.getByRole("combobox", { name: "Type" }).click();
  await page.getByRole("option", { name: "Bucket (S3)" }).click();
  await page
    .getByLabel("Endpoint", { exact: true })
    .fill("https://s3.example.org");
  await page.getByLabel("Bucket", { exact: true }).fill("datasets");
  await page.getByLabel("Folder in the bucket").fill("vision");
  await page.getByLabel("Access key", { exact: true }).fill("AKIAEXAMPLEKEY");
  await page.getByLabel("Secret key", { exact: true }).fill("never-again");
  const writers = page.getByRole("combobox", { name: "Who reads and writes" });
  await writers.press("ArrowDown");
  await page.getByRole("option", { name: "default", exact: true }).click();
  await page.getByLabel("Description").focus();
  await shoot(page, "bucket-form");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("a copy for each task").waitFor();
  await shoot(page, "bucket-list");

  // Kept when something else changes, and shown nowhere.
  await page.getByRole("button", { name: `Edit ${name}` }).click();
  await page.getByText("Keys are stored").waitFor();
  for (const label of ["Access key", "Secret key"]) {
    await expect(page.getByLabel(label, { exact: true })).toHaveValue("");
  }
  await page.getByLabel("Description").fill("Labelled by hand");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Labelled by hand").waitFor();
  const seen = await page.request.get(`/api/v1/storages/${name}`);
  expect(await seen.json()).toMatchObject({
    has_keys: true,
    data: { bucket: "datasets", prefix: "vision", path_style: "true" },
  });

  const context = await browser.newContext({
    storageState: await page.context().storageState(),
    colorScheme: "dark",
    viewport: { width: 390, height: 844 },
  });
  const phone = await context.newPage();
  await phone.goto("/storages");
  await phone.getByRole("button", { name: `Edit ${name}` }).click();
  await phone.getByText("Keys are stored").waitFor();
  await shoot(phone, "bucket-phone-dark");
  await context.close();

  await page.getByRole("button", { name: `Remove ${name}` }).click();
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await page.getByText("a copy for each task").waitFor({ state: "detached" });

  // One that a virtual cluster manages: added, changed and removed on its own page.
  const own = `default-${freshName("own")}`;
  await page.goto("/virtual-clusters/default?tab=storages");
  await page.getByRole("button", { name: "Add a bucket" }).click();
  const form = page.getByRole("dialog", { name: "Add a bucket" });
  await expect(form.getByLabel("Name", { exact: true })).toHaveValue(
    "default-",
  );
  await form.getByLabel("Name", { exact: true }).fill(own);
  await form
    .getByLabel("Endpoint", { exact: true })
    .fill("https://s3.example.org");
  await form.getByLabel("Bucket", { exact: true }).fill("datasets");
  await form.getByLabel("Access key", { exact: true }).fill("AKIAEXAMPLEKEY");
  await form.getByLabel("Secret key", { exact: true }).fill("never-again");
  await shoot(page, "bucket-of-vc-form");
  await form.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("managed by default").waitFor();
  await shoot(page, "bucket-of-vc");
  expect(await axe(page)).toEqual([]);
  await page.getByRole("button", { name: `Remove ${own}` }).click();
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await page.getByText("managed by default").waitFor({ state: "detached" });
});
