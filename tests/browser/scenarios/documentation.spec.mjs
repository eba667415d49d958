import { expect, logIn, shoot, test } from "../visitor.mjs";

/** Each page leads to what the documentation says of it, which lies on our own server, looks as it
 * should under the security policy, and is searched. `page` fails on a script that was refused. */
test("a page leads to its documentation, which is read and searched", async ({ page, browse }) => {
  await logIn(page);
  await page.goto("/cells");
  const link = page.getByRole("link", { name: "Documentation of this page" });
  await link.waitFor();
  await page.keyboard.press("?");
  const keys = page.getByRole("dialog", { name: "Keyboard shortcuts" });
  await expect(keys.getByText("Go to the search field of the page")).toBeVisible();
  await expect(keys.getByRole("link", { name: "Documentation of this page" })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(keys).toBeHidden();
  await shoot(page, "documentation-link");
  const address = await link.getAttribute("href");
  expect(address).toBe("/docs/cells.html#physical-cells");
  await expect(link).toHaveAttribute("target", "_blank");

  await page.goto(address);
  await expect(page.getByRole("heading", { name: /Physical cells/ })).toBeInViewport();
  await shoot(page, "documentation-light");
  await search(page);

  await browse(
    async (reader) => {
      await reader.setViewportSize({ width: 390, height: 844 });
      await reader.goto("/docs");
      await expect(reader).toHaveURL(/\/docs\/index\.html/);
      await reader.locator("body[data-md-color-scheme=slate]").waitFor();
      await shoot(reader, "documentation-dark");
      await reader.goto("/docs/policies/gavel.html");
      await expect(reader.getByRole("heading", { level: 1 })).toBeVisible();
      await reader.goto("/login");
      await reader.getByRole("link", { name: "Documentation of this page" }).waitFor();
      await shoot(reader, "documentation-login");
    },
    { colorScheme: "dark" },
  );
});

/** By the worker and the index that the pages bring along. The list of results lies in a closed
 * shadow root: the best one is taken by the keyboard, once it is there. */
async function search(page) {
  await page.getByRole("button", { name: "Search" }).first().click();
  await page.getByRole("searchbox").or(page.getByPlaceholder("Search")).first().fill("passkeys");
  await expect(async () => {
    await page.keyboard.press("Enter");
    await expect(page).toHaveURL(/\/docs\/people\.html/, { timeout: 2_000 });
  }).toPass({ timeout: 60_000 });
  await expect(page.getByRole("heading", { name: /Security keys and passkeys/ })).toBeVisible();
}
