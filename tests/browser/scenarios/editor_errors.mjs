import { browse, expect, freshName, jobFile, logIn, write } from "../visitor.mjs";

/** Mistakes show at their line: the page's own while one types, the server's after a check. */
export default () =>
  browse(async (page) => {
    await logIn(page);
    await page.goto("/jobs/new");
    const good = jobFile({ name: freshName("mistaken"), command: "sleep 0" });

    await write(page, good.replace("instances:", "instance:"));
    const mark = page.locator(".cm-lintRange-error");
    await mark.waitFor();
    expect((await mark.textContent()) === "instance", "another place is marked");
    await mark.hover();
    await page.getByText('did you mean "instances"?').waitFor();

    await write(page, good.replace("virtualCluster: default", "virtualCluster: nowhere"));
    await page.waitForFunction(noMarks);
    await page.getByRole("button", { name: "Submit" }).click();
    const told = page.getByRole("alert").getByRole("button");
    await told.waitFor();
    const line = good.split("\n").findIndex((text) => text.includes("virtualCluster")) + 1;
    expect((await told.textContent()).includes(`Line ${line}`), "told at another line");
    await mark.getByText("nowhere").waitFor();
    expect(page.url().endsWith("/jobs/new"), "a job with a mistake was submitted");

    // What was wrong of an older text is not said of the newer one.
    await write(page, good);
    await page.waitForFunction(noMarks);
    expect((await told.count()) === 0, "the mistake is still told");
  });

function noMarks() {
  const hosts = [...document.querySelectorAll("main div")].filter((each) => each.shadowRoot);
  return hosts.every((host) => !host.shadowRoot.querySelector(".cm-lintRange-error"));
}
