import {
  ask,
  expect,
  freshName,
  jobFile,
  logIn,
  shoot,
  test,
} from "../visitor.mjs";

/** Before a node is drained one sees whose job restarts; the job then goes on elsewhere, and its
 * page says what happened. */
test("a drained nodes job is forecast and goes on elsewhere", async ({
  page,
}) => {
  await logIn(page);
  const name = freshName("drained");
  const job = await ask(
    page,
    "POST",
    "/jobs",
    jobFile({ name, command: "sleep 600", gpus: 8 }),
  );
  const node = await nodeOf(page, job.id);
  await page.getByRole("link", { name: "Cluster", exact: true }).click();
  await page.getByRole("button", { name: new RegExp(`^${node}:`) }).click();
  const drawer = page.getByRole("dialog", { name: node, exact: true });
  await drawer.getByRole("button", { name: "Drain", exact: true }).click();
  const question = page.getByRole("dialog", { name: `Drain ${node}?` });
  await question.getByText("1 job would restart from the queue").waitFor();
  await question.getByRole("link", { name }).waitFor();
  await shoot(page, "drain");
  await question.getByRole("button", { name: `Drain ${node}` }).click();
  await drawer.getByRole("button", { name: "Uncordon" }).waitFor();
  await drawer.getByText("Nothing runs here").waitFor();

  await page.goto(`/jobs/${job.id}?tab=events`);
  await page.getByText("preempted once").waitFor();
  await page.getByText(`Node ${node} is being drained`).first().waitFor();
  const next = await nodeOf(page, job.id);
  expect(next !== node, "the job runs on the drained node again").toBeTruthy();
  await shoot(page, "drained-job");

  await ask(page, "POST", `/nodes/${node}/undrain`);
  await ask(page, "POST", `/jobs/${job.id}/stop`);
  await page.getByText("Stopped", { exact: true }).waitFor();
});

/** Where the job's only task runs, once it does. */
async function nodeOf(page, id) {
  for (let tries = 0; tries < 300; tries += 1) {
    const { results } = await ask(page, "GET", `/jobs/${id}/tasks`);
    if (results[0]?.state === "RUNNING") return results[0].attempt.node;
    await page.waitForTimeout(200);
  }
  throw new Error("the job does not run");
}
