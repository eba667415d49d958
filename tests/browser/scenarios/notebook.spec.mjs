import { ask, expect, logIn, settings, shoot, test } from "../visitor.mjs";

const WRITE_A_SCALAR = [
  "from tensorboard.summary.writer.event_file_writer import EventFileWriter as W",
  "from tensorboard.compat.proto.event_pb2 import Event as E",
  "from tensorboard.compat.proto.summary_pb2 import Summary as S",
  "w = W('/tmp/runs')",
  "v = [S.Value(tag='loss_of_a_test', simple_value=0.5)]",
  "[w.add_event(E(step=n, wall_time=n, summary=S(value=v))) for n in (1, 2)]; w.close()",
  "print('answer', 6 * 7)",
];

/** A notebook from the button to the output of a cell, and TensorBoard beside it in the same job. */
test("a cell runs in JupyterLab and TensorBoard shows its scalar", async ({
  page,
}) => {
  test.setTimeout(400_000);
  await logIn(page);
  await page.goto("/apps");
  await page.getByRole("button", { name: "New notebook" }).click();
  const form = page.getByRole("dialog");
  await form.getByLabel("Image").fill(settings.image);
  await form.getByRole("button", { name: "Start" }).click();
  const row = page.getByRole("row").filter({ hasText: "jupyterlab-" });
  await expect(row).toContainText("ready", { timeout: 180_000 });
  await shoot(page, "notebooks");

  const lab = await opened(page, row.getByRole("link", { name: /^Open/ }));
  await expect(lab).toHaveURL(/\.apps\.localhost:\d+\/lab/, {
    timeout: 90_000,
  });
  await lab.getByText("Python 3").first().click({ timeout: 90_000 });
  const cell = lab.locator(".jp-Notebook .jp-CodeCell .cm-content").first();
  await cell.click({ timeout: 90_000 });
  // Until its kernel runs, a notebook asks which one to take.
  await lab.locator("[data-status=idle]").first().waitFor({ timeout: 90_000 });
  await lab.keyboard.insertText(WRITE_A_SCALAR.join("\n"));
  // JupyterLab still moves the focus about while it opens, and loses a key.
  await expect(async () => {
    await cell.click();
    await lab.keyboard.press("Shift+Enter");
    const output = lab.locator(".jp-OutputArea-output").first();
    await expect(output).toContainText("answer 42", { timeout: 10_000 });
  }).toPass({ timeout: 90_000 });
  await shoot(lab, "jupyterlab");

  await row.getByRole("link", { name: /^jupyterlab-/ }).click();
  await page.getByRole("button", { name: "TensorBoard" }).click();
  await page.getByLabel("Folder with the event files").fill("/tmp/runs");
  await page.getByRole("dialog").getByRole("button", { name: "Start" }).click();
  const board = page.getByRole("link", { name: /^Open tensorboard/ });
  await expect(board).toContainText("Open tensorboard", { timeout: 180_000 });
  const shown = await opened(page, board);
  await expect(shown.getByText("loss_of_a_test").first()).toBeVisible({
    timeout: 120_000,
  });
  await shoot(shown, "tensorboard");
  const id = new URL(page.url()).pathname.split("/").at(-1);
  await ask(page, "POST", `/jobs/${id}/stop`);
});

async function opened(page, link) {
  const [popup] = await Promise.all([
    page.context().waitForEvent("page"),
    link.click(),
  ]);
  return popup;
}
