import {
  ask,
  expect,
  freshName,
  jobFile,
  logIn,
  shoot,
  test,
} from "../visitor.mjs";

const OOM =
  "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
const SCRIPT = `for i in $(seq 300); do echo step $i; done; [ $RANK = 1 ] || sleep 30; echo '${OOM}' >&2; exit 1`;

/** What a failed job tells, and the way from there to the line that gave it away. */
test("a failed job says why and leads to the line that tells", async ({
  page,
}) => {
  await logIn(page);
  const command = JSON.stringify(SCRIPT);
  const text = jobFile({ name: freshName("fails"), command, tasks: 2 });
  const job = await ask(page, "POST", "/jobs", text);
  await page.goto(`/jobs/${job.id}`);

  // Nobody reloads: the verdict comes by itself.
  const panel = page.getByRole("region", { name: "Why it failed" });
  await panel.getByRole("heading", { name: "GPU out of memory" }).waitFor();
  await panel.getByText(/gradient checkpointing/).waitFor();
  await panel.getByText("worker-1 stderr, line 1").waitFor();
  await panel
    .getByText("Not retried: it would fail in the same way.")
    .waitFor();
  await page.getByRole("region", { name: "What it used" }).waitFor();
  await shoot(page, "failure");

  await panel.getByRole("link", { name: "Show in the log" }).click();
  const line = page.getByRole("log").locator("[data-current]");
  await line.waitFor();
  const shown = await line.textContent();
  expect(shown === OOM, `the log opened at: ${shown}`).toBeTruthy();

  await page.getByRole("combobox", { name: "Whose log" }).click();
  await page.getByRole("option", { name: "All tasks" }).click();
  await page.getByRole("radio", { name: "Both" }).locator("..").click();
  await searchTheWhole(page);

  await page.getByRole("link", { name: "Attempts" }).click();
  await page.getByRole("heading", { name: "Attempt 1" }).waitFor();
  await shoot(page, "attempts");
});

async function searchTheWhole(page) {
  await page
    .getByRole("searchbox", { name: "Search in the log" })
    .fill("step 299");
  await page.getByRole("button", { name: "Search the whole log" }).click();
  await page.getByRole("menuitem", { name: "Search the whole log" }).click();
  const matches = page.getByRole("complementary", {
    name: "Matches in the whole log",
  });
  await matches.getByText("2 matches").waitFor();
  await matches.getByRole("button", { name: /worker-1.*step 299/ }).click();
  const line = page.getByRole("log").locator("[data-current]");
  await line.getByText("step 299").waitFor();
  expect(
    /worker-1/.test(await line.textContent()),
    "the match of another task was shown",
  ).toBeTruthy();
  await shoot(page, "matches");
}
