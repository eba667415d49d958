import {
  ask,
  axe,
  expect,
  freshName,
  logIn,
  shoot,
  test,
} from "../visitor.mjs";

const SCHEMES = ["light", "dark"];

test("who changed what is found, opened, exported, and seen by those whom it concerns", async ({
  page,
}) => {
  await logIn(page);
  const vc = freshName("audited");
  const manager = freshName("vera");
  const password = "many-busy-bees";
  await ask(page, "POST", "/virtual-clusters", { name: vc });
  await ask(page, "PATCH", `/virtual-clusters/${vc}`, {
    description: "for the audit",
  });
  await ask(page, "POST", "/users", { username: manager, password });
  await ask(page, "PUT", `/virtual-clusters/${vc}/members/${manager}`, {
    role: "admin",
  });

  await page.getByRole("link", { name: "Audit" }).click();
  await page
    .getByRole("searchbox", { name: "Name of the target" })
    .fill(vc.slice(2));
  const table = page.getByRole("table", { name: "Audit log" });
  await page.waitForURL(/target=/);
  await expect(table.getByRole("row")).toHaveCount(3); // a header, vc.create, vc.update
  await page.getByRole("button", { name: /^Details of vc.update/ }).click();
  const diff = page.getByRole("table", { name: "What changed" });
  await expect(
    diff.getByRole("row", { name: "description empty for the audit" }),
  ).toBeVisible();

  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 844 });
    for (const colorScheme of SCHEMES) {
      await page.emulateMedia({ colorScheme });
      await page
        .locator(`html[data-mantine-color-scheme=${colorScheme}]`)
        .waitFor();
      expect(await axe(page)).toEqual([]);
      await shoot(page, `audit-${width}-${colorScheme}`);
    }
  }
  await page.setViewportSize({ width: 1440, height: 844 });
  await page.emulateMedia({ colorScheme: "light" });

  await page.reload(); // the address has the filter
  await expect(table.getByRole("row")).toHaveCount(3);
  await page.getByRole("button", { name: "Export" }).click();
  const file = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: /CSV/ }).click();
  const text = await streamed(await (await file).createReadStream());
  expect(text.split("\r\n").filter((line) => line.includes("vc.")).length).toBe(
    2,
  );
  await page.goto("/audit?action=audit.export");
  await expect(
    page.getByRole("row", { name: new RegExp(`audit.export.*${vc.slice(2)}`) }),
  ).toBeVisible();

  await page.goto("/profile");
  const recent = page.getByRole("table", { name: "Recent activity" });
  await expect(
    recent.getByRole("row", { name: /audit.export/ }).first(),
  ).toBeVisible();
  await shoot(page, "audit-profile");

  await page.context().clearCookies();
  await logIn(page, { user: manager, password });
  await page.goto(`/virtual-clusters/${vc}?tab=audit`);
  await expect(page.getByRole("row", { name: /vc.member.set/ })).toBeVisible();
  await expect(page.getByRole("row", { name: /vc.create/ })).toBeVisible();
  await shoot(page, "audit-vc");
  await page.goto("/audit");
  await expect(
    page.getByRole("row", { name: /login.succeeded/ }).first(),
  ).toBeVisible();
  await expect(page.getByRole("row", { name: /user.create/ })).toHaveCount(0);
});

async function streamed(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}
