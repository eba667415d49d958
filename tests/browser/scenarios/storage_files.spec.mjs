import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
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

/** An admin adds a folder of the nodes as a storage and grants it; files are uploaded in pieces,
 * downloaded and removed. */
test("files of a storage", async ({ page }) => {
  const here = mkdtempSync(join(tmpdir(), "skep-files-"));
  const large = Buffer.alloc(5 * 1024 * 1024 + 3, "skep");
  writeFileSync(join(here, "large.bin"), large);
  writeFileSync(join(here, "note.txt"), "written here\n");
  mkdirSync(join(process.env.SKEP_STORAGE, "runs"));

  await logIn(page);
  await page.goto("/storages");
  await page.getByRole("button", { name: "Add a storage" }).click();
  await page.getByLabel("Name", { exact: true }).fill("files");
  await page.getByRole("combobox", { name: "Type" }).click();
  await page.getByRole("option", { name: "Folder of the nodes" }).click();
  await page.getByLabel("Path", { exact: true }).fill(process.env.SKEP_STORAGE);
  const writers = page.getByRole("combobox", {
    name: "Who reads and writes",
  });
  await writers.press("ArrowDown");
  await page.getByRole("option", { name: "default" }).click();
  const readers = page.getByRole("combobox", { name: "Who only reads" });
  await readers.press("ArrowDown");
  await page.getByRole("option", { name: "readers" }).click();
  await page.getByLabel("Description").focus();
  await shoot(page, "storage-form");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("group readers (read only)").waitFor();
  await shoot(page, "storages");

  await page.getByRole("link", { name: "files", exact: true }).click();
  await page.setInputFiles("input[type=file]", join(here, "large.bin"));
  const link = page.getByRole("link", { name: "large.bin" });
  await link.waitFor();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    link.click(),
  ]);
  expect(
    readFileSync(await download.path()).equals(large),
    "it came back as it went",
  ).toBeTruthy();

  await page.getByRole("link", { name: "runs/" }).click();
  await page.getByRole("heading", { name: "runs" }).waitFor();
  await page.setInputFiles("input[type=file]", join(here, "note.txt"));
  await page.getByRole("link", { name: "note.txt" }).waitFor();
  await shoot(page, "storage-files");
  await page.reload();
  await page.getByRole("link", { name: "note.txt" }).waitFor();

  await page.getByRole("button", { name: "Make a dataset" }).click();
  await page.getByLabel("Name", { exact: true }).fill("notes");
  await page.getByLabel("Description").fill("What runs wrote");
  await shoot(page, "dataset-form");
  await page.getByRole("button", { name: "Make it" }).click();
  await page.getByRole("heading", { name: "notes@1" }).waitFor();
  await page.getByText("13 B in 1 file").waitFor();
  await page.getByText("datasets: [notes@1]").waitFor();
  await shoot(page, "dataset");
  await page.goto("/jobs/new");
  const name = freshName("reads");
  const file = jobFile({
    name,
    command: "cat /datasets/notes/note.txt",
    gpus: 0,
  });
  await write(page, `${file}extras:\n  skep:\n    datasets: [notes@1]\n`);
  await page.getByRole("button", { name: "Submit" }).click();
  await page.locator("header").getByText("Succeeded").waitFor();
  await page.goto("/datasets");
  await page.getByRole("link", { name: "notes@1" }).waitFor();
  await shoot(page, "datasets");

  await page.goto("/storages/files?path=runs");
  await page.getByRole("link", { name: "note.txt" }).waitFor();
  await page
    .getByRole("navigation", { name: "Pages above" })
    .getByText("files")
    .click();
  await page.getByRole("button", { name: "Remove large.bin" }).click();
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await link.waitFor({ state: "detached" });
});
