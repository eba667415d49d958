import { ask, freshName, logIn, shoot, test } from "../visitor.mjs";

/** A service account is made on the page of its virtual cluster and gets a token; the page of all tokens
 * lists it, and revokes it. */
test("a service account gets a token, which an administrator sees and revokes", async ({
  browse,
}) => {
  const team = freshName("team");
  await browse(async (page) => {
    await logIn(page);
    await ask(page, "POST", "/virtual-clusters", { name: team });
    await page.goto(`/virtual-clusters/${team}?tab=members`);
    await page.getByRole("button", { name: "New service account" }).click();
    await page.getByLabel("Name", { exact: true }).fill("nightly");
    await page.getByLabel("Description").fill("Nightly training");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: "0 tokens" }).click();
    await page.getByRole("button", { name: "New token" }).click();
    await page.getByLabel("Name", { exact: true }).fill("pipeline");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText(/^skt_/).waitFor();
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByText("jobs and files").waitFor();
    await shoot(page, "service-account-tokens");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "1 token" }).waitFor();
    await shoot(page, "service-accounts");

    await page.goto(`/tokens?user=svc.${team}.nightly`);
    await page.getByText("pipeline").waitFor();
    await shoot(page, "tokens");
    await page.getByRole("button", { name: /^Revoke pipeline/ }).click();
    await page.getByRole("button", { name: "Revoke", exact: true }).click();
    await page.getByText("No tokens").waitFor();
  });
});
