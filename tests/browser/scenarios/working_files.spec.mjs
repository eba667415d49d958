import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  expect,
  freshName,
  jobFile,
  logIn,
  shoot,
  test,
  write,
} from "../visitor.mjs";

const DEEP = join("src", "a-package-with-a-long-name".repeat(4), "data");

/** A folder that is chosen in the page lies in the container, but for what nobody needs there. */
test("a folder chosen in the page lies in the container", async ({ page }) => {
  const folder = await makeFolder();
  await logIn(page);
  await page.goto("/jobs/new");
  const command = `find . -type f | sort; cat train.py`;
  await write(page, jobFile({ name: freshName("files"), command, gpus: 0 }));
  await page.getByLabel("Folder of working files").setInputFiles(folder);
  await page.getByText("2 files,").waitFor();
  await page
    .getByRole("textbox", { name: "Job file" })
    .getByText(/archive: sha256:/)
    .waitFor();
  await shoot(page, "working-files");

  await page.getByRole("button", { name: "Submit" }).click();
  await page.locator("header").getByText("Succeeded").waitFor();
  await page.getByRole("link", { name: "Logs", exact: true }).click();
  const log = page.getByRole("log");
  await log.getByText("print('trained')").waitFor();
  await log.getByText(`./${DEEP}/part.txt`).waitFor();
  const git = await log.getByText(".git").count();
  expect(git === 0, "the repository's own files came along").toBeTruthy();
});

async function makeFolder() {
  const folder = await mkdtemp(join(tmpdir(), "working-"));
  await mkdir(join(folder, DEEP), { recursive: true });
  await mkdir(join(folder, ".git"));
  await writeFile(join(folder, "train.py"), "print('trained')\n");
  await writeFile(join(folder, DEEP, "part.txt"), "x".repeat(5000));
  await writeFile(join(folder, ".git", "HEAD"), "ref: refs/heads/main\n");
  return folder;
}
