import { ask, expect, freshName, jobFile, logIn, shootBoth, test } from "../visitor.mjs";

const PASSWORD = "many-busy-bees";

/** A VC admin sees what the limits of a team are, sets those that are the team's own, and takes one
 * back; who submits more is told the number. */
test("a VC admin sets limits and submits are held to them", async ({ page, browse }) => {
  const [team, boss] = [freshName("limits"), freshName("boss")];
  await logIn(page);
  await ask(page, "POST", "/users", { username: boss, password: PASSWORD });
  await ask(page, "POST", "/virtual-clusters", { name: team });
  await ask(page, "PUT", `/virtual-clusters/${team}/members/${boss}`, { role: "admin" });

  await browse(async (own) => {
    await logIn(own, { user: boss, password: PASSWORD });
    await own.goto(`/virtual-clusters/${team}?tab=settings`);
    const row = (name) => own.getByRole("row").filter({ has: own.getByRole("rowheader", { name }) });
    await expect(row(/^GPUs per job/)).toContainText("no limit");
    await expect(row(/^Host network/)).toContainText("Set by administrators.");
    await expect(row(/^Host network/).getByRole("button")).toHaveCount(0);

    await own.getByRole("button", { name: "Change GPUs per job" }).click();
    const dialog = own.getByRole("dialog", { name: "GPUs per job" });
    await dialog.getByLabel("Value (GPUs)").fill("2");
    await shootBoth(own, "limits-dialog");
    await dialog.getByRole("button", { name: "Set" }).click();
    await expect(row(/^GPUs per job/)).toContainText("2 GPUs");
    await row(/^GPUs per job/).scrollIntoViewIfNeeded();
    await shootBoth(own, "limits");

    const file = jobFile({ name: freshName("large"), gpus: 3 });
    const large = file.replace("virtualCluster: default", `virtualCluster: ${team}`);
    await expect(ask(own, "POST", "/jobs", large)).rejects.toThrow(/may have 2 in all/);

    await own.getByRole("button", { name: "Change GPUs per job" }).click();
    await dialog.getByRole("button", { name: /^Return to the default/ }).click();
    await expect(row(/^GPUs per job/)).toContainText("no limit");
  });
});
