import { browse, expect, settings } from "../visitor.mjs";

const PARTS = { script: /assets\/(?!index).*\.js$/, stylesheet: /assets\/.*\.css$/ };

/** A network comes or goes while the page loads, and the browser gives up one of its parts. */
export default async () => {
  for (const [kind, pattern] of Object.entries(PARTS))
    await browse(async (page) => {
      let lost = 0;
      let opened = 0;
      page.on("request", (request) => (opened += request.isNavigationRequest() ? 1 : 0));
      await page.route(pattern, (route) => route.abort("failed"), { times: 1 });
      page.on("requestfailed", () => (lost += 1));

      await page.goto("/login");
      await page.waitForFunction(
        () => performance.getEntriesByType("navigation")[0].type === "reload",
      );
      await page.getByLabel("User name").fill(settings.user);
      expect(lost >= 1, `no ${kind} was lost`);
      expect(opened === 2, `the page was opened ${opened} times`);
    });
};
