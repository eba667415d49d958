import { ask, expect, freshName, jobFile, logIn, reach, shootBoth, test } from "../visitor.mjs";

const PASSWORD = "many-busy-bees";

/** The owner of a job shares it with a user of another team, who then reads it and cannot change it;
 * after the share is taken back, the job is not there for that user. */
test("a shared job is read by whom it is shared with", async ({ page, browse }) => {
  const [owner, reader] = [freshName("owner"), freshName("reader")];
  await logIn(page);
  for (const username of [owner, reader])
    await ask(page, "POST", "/users", { username, password: PASSWORD });
  await ask(page, "PUT", `/virtual-clusters/default/members/${owner}`, { role: "member" });

  await browse(async (own) => {
    await logIn(own, { user: owner, password: PASSWORD });
    const name = freshName("shared");
    const file = jobFile({ name, command: "'echo for your eyes; sleep 900'", gpus: 0 });
    const job = await ask(own, "POST", "/jobs", file);
    await reach(own, job, "RUNNING");

    await browse(async (other) => {
      await logIn(other, { user: reader, password: PASSWORD });
      await other.goto(`/jobs/${job.id}`);
      await expect(other.getByRole("heading", { name })).toHaveCount(0);
      await other.getByText("No such job").waitFor();

      await own.goto(`/jobs/${job.id}`);
      await own.getByRole("button", { name: "Share", exact: true }).click();
      const dialog = own.getByRole("dialog", { name: `Share ${name}` });
      await dialog.getByText(`/jobs/${job.id}`).waitFor();
      const who = dialog.getByLabel("User name");
      await who.fill(`no-${reader}`);
      await dialog.getByRole("button", { name: "Share", exact: true }).click();
      await dialog.getByRole("alert").waitFor();
      await who.fill(reader);
      await dialog.getByRole("button", { name: "Share", exact: true }).click();
      await dialog.getByRole("list", { name: "Shared with" }).getByText(reader).waitFor();
      await expect(dialog.getByRole("alert")).toHaveCount(0);
      await shootBoth(own, "share");

      await other.goto(`/jobs/${job.id}?tab=logs`);
      await other.getByRole("log").getByText("for your eyes").waitFor();
      await expect(other.getByRole("button", { name: /^Stop/ })).toHaveCount(0);
      await expect(other.getByRole("button", { name: "Share", exact: true })).toHaveCount(0);

      await dialog.getByRole("button", { name: `Stop sharing with ${reader}` }).click();
      await expect(dialog.getByRole("list", { name: "Shared with" })).toHaveCount(0);
      await other.goto(`/jobs/${job.id}`);
      await other.getByText("No such job").waitFor();
      await shootBoth(other, "not-shared");
    });
    await ask(own, "POST", `/jobs/${job.id}/stop`);
    await reach(own, job, "STOPPED");
  });
});
