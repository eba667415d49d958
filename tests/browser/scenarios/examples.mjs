import { browse, expect, logIn, shoot } from "../visitor.mjs";

/** Every example of the submit page is a job that this small cluster takes as it is. */
export default () =>
  browse(async (page) => {
    await logIn(page);
    await page.goto("/jobs/new");
    const list = page
      .locator("section")
      .filter({ hasText: "Start from an example" });
    const examples = list.getByRole("listitem").getByRole("button");
    await examples.first().waitFor();
    const total = await examples.count();
    expect(total > 2, `${total} examples`);
    for (let index = 0; index < total; index += 1) {
      await page.goto("/jobs/new");
      await examples.nth(index).click();
      await page.getByRole("button", { name: "Check", exact: true }).click();
      await page.getByText("Nothing is wrong with it").waitFor();
      expect(
        (await page.getByText(/never/i).count()) === 0,
        `example ${index} never fits`,
      );
    }
    await page.setViewportSize({ width: 390, height: 844 });
    for (const path of [
      "/jobs/new",
      "/jobs",
      "/cluster",
      "/virtual-clusters",
      "/cells",
      "/users",
    ]) {
      await page.goto(path);
      await page.locator("main").waitFor();
      await page.waitForLoadState("networkidle");
      const wider = await page.evaluate(
        () =>
          document.documentElement.scrollWidth -
          document.documentElement.clientWidth,
      );
      expect(wider <= 0, `${path} is ${wider} px wider than a phone`);
      await shoot(page, `phone-${path.replaceAll("/", "-").slice(1)}`);
    }
  });
