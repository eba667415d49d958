import { expect, freshName, jobFile, logIn, test, write } from "../visitor.mjs";

/** Mistakes show at their line: the page's own while one types, the server's after a check. */
test("mistakes in a job file show at their line", async ({ page }) => {
  await logIn(page);
  await page.goto("/jobs/new");
  const good = jobFile({ name: freshName("mistaken"), command: "sleep 0" });

  await write(page, good.replace("instances:", "instance:"));
  const mark = page.locator(".cm-lintRange-error");
  await mark.waitFor();
  expect(
    (await mark.textContent()) === "instance",
    "another place is marked",
  ).toBeTruthy();
  await mark.hover();
  await page.getByText('did you mean "instances"?').waitFor();

  await write(
    page,
    good.replace("virtualCluster: default", "virtualCluster: nowhere"),
  );
  await page.waitForFunction(noMarks);
  await page.getByRole("button", { name: "Submit" }).click();
  const explanation = page.getByRole("alert").getByRole("button");
  await explanation.waitFor();
  const line =
    good.split("\n").findIndex((text) => text.includes("virtualCluster")) + 1;
  expect(
    (await explanation.textContent()).includes(`Line ${line}`),
    "shown at another line",
  ).toBeTruthy();
  await mark.getByText("nowhere").waitFor();
  expect(
    page.url().endsWith("/jobs/new"),
    "a job with a mistake was submitted",
  ).toBeTruthy();

  // What was wrong of an older text is not said of the newer one.
  await write(page, good);
  await page.waitForFunction(noMarks);
  expect(
    (await explanation.count()) === 0,
    "the mistake is still shown",
  ).toBeTruthy();
});

function noMarks() {
  const hosts = [...document.querySelectorAll("main div")].filter(
    (each) => each.shadowRoot,
  );
  return hosts.every(
    (host) => !host.shadowRoot.querySelector(".cm-lintRange-error"),
  );
}
