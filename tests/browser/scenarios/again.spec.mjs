import {
  ask,
  expect,
  freshName,
  jobFile,
  logIn,
  shoot,
  test,
} from "../visitor.mjs";

const SLURM = `#!/bin/bash
#SBATCH --job-name=resnet
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --mail-type=END
srun python train.py
`;

/** Jobs that come from elsewhere or from before: tags, a clone with its secret, an import. */
test("jobs are tagged cloned with their secrets and imported", async ({
  page,
}) => {
  await logIn(page);
  const name = freshName("again");
  const file = jobFile({
    name,
    command: "'test $(printf %s <% $secrets.word %> | wc -c) = 11'",
    gpus: 0,
  });
  const job = await ask(
    page,
    "POST",
    "/jobs",
    `${file}secrets: {word: open-sesame}\n`,
  );
  await page.goto(`/jobs/${job.id}`);
  await tag(page, name);
  await page.goto(`/jobs/${job.id}`);

  await page.getByRole("button", { name: "Clone" }).click();
  await page.getByRole("menuitem", { name: "Run it again as it is" }).click();
  await page.getByText(/is submitted$/).waitFor();
  await page.waitForURL((url) => !url.pathname.endsWith(job.id));
  await page.locator("header").getByText("Succeeded").waitFor();

  await page.getByRole("button", { name: "Clone" }).click();
  await page.getByRole("menuitem", { name: "Edit and submit" }).click();
  await page.getByText("type it again").waitFor();
  const content = page.getByRole("textbox", { name: "Job file" });
  expect(
    !/open-sesame/.test(await content.textContent()),
    "a secret is shown",
  ).toBeTruthy();
  await shoot(page, "secrets");
  await importSlurm(page);
});

async function tag(page, name) {
  await page.getByRole("button", { name: "Add tags" }).click();
  await page.getByRole("combobox", { name: "Tags" }).fill(`tag-of-${name}`);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Save the tags" }).click();
  await page.getByRole("link", { name: `tag-of-${name}` }).click();
  await page.getByRole("table", { name: "Jobs" }).waitFor();
  await page.getByRole("link", { name, exact: true }).waitFor();
  const rows = await page
    .getByRole("table", { name: "Jobs" })
    .getByRole("row")
    .count();
  expect(rows === 2, `${rows - 1} jobs have the tag, not 1`).toBeTruthy();
  await shoot(page, "tags");
}

async function importSlurm(page) {
  await page.getByRole("button", { name: "Import" }).click();
  await page
    .getByRole("textbox", { name: /Slurm script, Kubeflow manifest/ })
    .fill(SLURM);
  const dialog = page.getByRole("dialog", { name: "Import a job" });
  await dialog.getByRole("button", { name: "Import", exact: true }).click();
  await dialog.waitFor({ state: "hidden" });
  await page
    .getByRole("textbox", { name: "Job file" })
    .getByText("name: resnet")
    .waitFor();
  await page.getByText(/mail-type/).waitFor();
  await shoot(page, "imported");
}
