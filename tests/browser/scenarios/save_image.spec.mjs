import {
  ask,
  axe,
  expect,
  freshName,
  jobFile,
  logIn,
  reach,
  shoot,
  test,
} from "../visitor.mjs";

const { SKEP_REGISTRY, SKEP_REGISTRY_USER, SKEP_REGISTRY_PASSWORD } =
  process.env;

/** What was installed in a running task is there in the image that it was saved as. */
test("a running task is saved as an image and used by the next job", async ({
  page,
}) => {
  await logIn(page);
  const limit = "/virtual-clusters/default/limits/save_image_mb";
  await ask(page, "PUT", limit, { value: 0 });
  await ask(page, "DELETE", `/me/registry-credentials/${SKEP_REGISTRY}`);
  const file = jobFile({
    name: freshName("installs"),
    command: "echo installed > /package && sleep 600",
    gpus: 0,
  });
  const job = await ask(page, "POST", "/jobs", file);
  await reach(page, job, "RUNNING");
  await page.goto(`/jobs/${job.id}`);
  await page.getByRole("button", { name: /^worker-0/ }).click();
  const panel = page.getByRole("dialog", { name: "worker-0" });
  const reference = `${SKEP_REGISTRY}/team/${freshName("mine")}:1`;

  await panel.getByRole("button", { name: "Save as image" }).click();
  const form = page.getByRole("dialog", { name: "Save worker-0 as an image" });
  await form.getByLabel("Image").fill(reference);
  await form.getByRole("button", { name: "Save" }).click();
  await form.getByText(/lets no container be saved/).waitFor();
  await ask(page, "PUT", limit, { value: 1024 });
  await form.getByRole("button", { name: "Save" }).click();
  await form.getByText(/has a credential for/).waitFor();
  await shoot(page, "save-image-form");
  await ask(page, "PUT", `/me/registry-credentials/${SKEP_REGISTRY}`, {
    username: SKEP_REGISTRY_USER,
    password: SKEP_REGISTRY_PASSWORD,
  });
  await form.getByRole("button", { name: "Save" }).click();
  await form.waitFor({ state: "hidden" });
  await panel.getByText(/^Saved [\d.]+ \w+ of changes/).waitFor({ timeout: 120_000 });
  await shoot(page, "save-image");
  expect(await axe(page)).toEqual([]);
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  await shoot(page, "save-image-phone");
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width).toBeLessThanOrEqual(390);
  await ask(page, "POST", `/jobs/${job.id}/stop`);

  await page.setViewportSize({ width: 1440, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
  await page.goto("/jobs/new");
  await page.getByRole("button", { name: "Form", exact: true }).click();
  const picker = page
    .getByRole("region", { name: "Form" })
    .getByLabel("Image", { exact: true });
  await picker.fill("");
  await picker.fill(reference.slice(0, -1));
  await page.getByText("Saved by you").waitFor();
  await shoot(page, "save-image-picker");
  await page.getByRole("option", { name: reference }).click();
  await expect(picker).toHaveValue(reference);

  const uses = jobFile({
    name: freshName("uses"),
    image: reference,
    command: "grep -q installed /package",
    gpus: 0,
  });
  await reach(page, await ask(page, "POST", "/jobs", uses), "SUCCEEDED");
  await ask(page, "DELETE", limit);
  await ask(page, "DELETE", `/me/registry-credentials/${SKEP_REGISTRY}`);
});
