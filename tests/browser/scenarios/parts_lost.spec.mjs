import { expect, logIn, settings, test } from "../visitor.mjs";

const PARTS = {
  script: /assets\/(?!index).*\.js$/,
  stylesheet: /assets\/.*\.css$/,
};

/** A network comes or goes while the page loads, and the browser gives up one of its parts. */
test("a page whose parts did not arrive is loaded anew", async ({ browse }) => {
  for (const [kind, pattern] of Object.entries(PARTS))
    await browse(async (page) => {
      let lost = 0;
      let opened = 0;
      page.on(
        "request",
        (request) => (opened += request.isNavigationRequest() ? 1 : 0),
      );
      await page.route(pattern, (route) => route.abort("failed"), { times: 1 });
      page.on("requestfailed", () => (lost += 1));

      await page.goto("/login");
      // The browser asks once more for a script that it had only fetched ahead; for nothing else.
      if (kind === "stylesheet")
        await page.waitForFunction(
          () => performance.getEntriesByType("navigation")[0].type === "reload",
        );
      await page.getByLabel("User name").fill(settings.user);
      expect(lost >= 1, `no ${kind} was lost`).toBeTruthy();
      expect(opened <= 2, `the page was opened ${opened} times`).toBeTruthy();
    });
  await browse(async (page) => {
    let lost = 0;
    page.on("requestfailed", () => (lost += 1));
    await logIn(page);
    const later = /assets\/(?!index|Skeleton).*\.css$/;
    await page.route(later, (route) => route.abort("failed"), { times: 2 });
    await page.goto("/jobs/new").catch(() => {}); // it is loaded anew meanwhile
    await page.getByRole("textbox", { name: "Job file" }).waitFor();
    expect(lost >= 2, `${lost} parts of a page were lost, not 2`).toBeTruthy();
  });
});
