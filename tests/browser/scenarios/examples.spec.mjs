import { expect, logIn, test } from "../visitor.mjs";

/** Every example of the submit page is a job that this small cluster takes as it is. */
test("finding U14: every example is taken", async ({ page }) => {
  await logIn(page);
  await page.goto("/jobs/new");
  const list = page
    .locator("section")
    .filter({ hasText: "Start from an example" });
  const examples = list.getByRole("listitem").getByRole("button");
  await examples.first().waitFor();
  const total = await examples.count();
  expect(total > 2, `${total} examples`).toBeTruthy();
  for (let index = 0; index < total; index += 1) {
    await page.goto("/jobs/new");
    await examples.nth(index).click();
    await page.getByRole("button", { name: "Check", exact: true }).click();
    await page.getByText("No problems found").waitFor();
    expect(
      (await page.getByText(/never/i).count()) === 0,
      `example ${index} never fits`,
    ).toBeTruthy();
  }
});
