import {
  ask,
  expect,
  freshName,
  jobFile,
  logIn,
  settings,
  test,
  write,
} from "../visitor.mjs";

/** A session that ends while somebody works: the login is asked for over the page, what was typed is
 * still there, and the address was never left. */
test("finding U10: a session that ends is asked for over the page", async ({
  page,
}) => {
  await logIn(page);
  await page.goto("/jobs/new?");
  const name = freshName("unfinished");
  await write(page, jobFile({ name, command: "sleep 1" }));
  const places = [];
  page.on(
    "framenavigated",
    (frame) => frame === page.mainFrame() && places.push(frame.url()),
  );

  // As when the server forgot the session: the page still shows it as its own.
  await page.context().clearCookies({ name: "skep_session" });
  // What the page asks by itself may have opened the dialog over the button by now.
  await page.getByRole("button", { name: "Check" }).dispatchEvent("click");
  const dialog = page.getByRole("dialog", { name: "Your session has ended" });
  await dialog.waitFor();
  expect(
    !page.url().includes("next="),
    `the page went to ${page.url()}`,
  ).toBeTruthy();
  await page.screenshot({ path: `${settings.shots}/expiry.png` });

  await dialog.getByLabel("Password", { exact: true }).fill("not it");
  await dialog.getByRole("button", { name: "Log in", exact: true }).click();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByLabel("Password", { exact: true }).fill(settings.password);
  await dialog.getByRole("button", { name: "Log in", exact: true }).click();
  await dialog.waitFor({ state: "detached" });
  const text = await page
    .getByRole("textbox", { name: "Job file" })
    .textContent();
  expect(text.includes(name), "what was typed is lost").toBeTruthy();
  expect(
    places.length === 0,
    `the page was left for ${places.join(", ")}`,
  ).toBeTruthy();
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByText(name).last().waitFor();

  // Every page keeps its place, also one that asks again by itself.
  for (const path of ["/jobs", "/cluster", "/settings/profile", "/users"]) {
    await page.goto(path);
    await page.getByRole("main").getByRole("heading").first().waitFor();
    await page.context().clearCookies({ name: "skep_session" });
    await page.reload();
    await page.waitForURL(/\/login\?next=/);
    const next = new URL(page.url()).searchParams.get("next");
    expect(
      next === path,
      `behind the login comes ${next}, not ${path}`,
    ).toBeTruthy();
    await page.getByLabel("User name").fill(settings.user);
    await page.getByLabel("Password", { exact: true }).fill(settings.password);
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    await page.waitForURL((url) => url.pathname === path);
  }
  await ask(page, "GET", "/me");
});
