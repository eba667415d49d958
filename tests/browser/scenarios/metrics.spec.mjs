import {
  ask,
  axe,
  expect,
  freshName,
  jobFile,
  logIn,
  reach,
  shoot,
  test,
} from "../visitor.mjs";

/** A training whose loss falls with its learning rate, and has no number at its end. */
function training(name, tag, rate, end) {
  const line = `step $i lr=${rate} loss=$((900 / (i + ${rate})))`;
  const steps = `for i in $(seq 0 60); do echo "${line}"; echo "::skep-metric accuracy=0.$((10 + i)) step=$i"; sleep 0.05; done`;
  const text = jobFile({ name, command: `'${steps}; ${end}'`, gpus: 1 });
  return `${text}parameters: {lr: ${rate}}
extras:
  tags: [${tag}]
  skep:
    metrics: [loss]
`;
}

test("the loss of a training is plotted beside its GPUs and runs are compared", async ({
  page,
}) => {
  await logIn(page);
  const tag = freshName("sweep");
  const names = [1, 3].map((rate) => freshName(`rate-${rate}`));
  const submit = (index, rate, end) =>
    ask(page, "POST", "/jobs", training(names[index], tag, rate, end));
  const first = await submit(0, 1, 'echo "step 61 loss=nan"; sleep 900');
  const second = await submit(1, 3, "true");
  await reach(page, first, "RUNNING");

  // The plot is there while the job runs.
  await page.goto(`/jobs/${first.id}?tab=metrics`);
  const own = page.getByRole("region", { name: "Metrics of the job itself" });
  await own.getByRole("img", { name: "loss" }).waitFor();
  await own.getByRole("img", { name: "accuracy" }).waitFor();
  await own.getByText("loss is NaN or infinite from step 61 on.").waitFor();
  const values = own.getByRole("listitem").filter({ hasText: "accuracy" });
  await expect(values).toHaveText("accuracy 0.7");
  await own.getByText("Step", { exact: true }).click();
  await own.getByRole("checkbox", { name: "Logarithmic" }).check();
  await own.getByText("Time", { exact: true }).click();
  await page.getByRole("img", { name: "CPU (cores)" }).waitFor();
  await shoot(page, "metrics-own");
  expect(await axe(page)).toEqual([]);

  // Its line in the log, and the event of the loss.
  await page.goto(`/jobs/${first.id}?tab=logs`);
  await page.getByText("::skep-metric accuracy=0.70 step=60").waitFor();
  await page.goto(`/jobs/${first.id}?tab=events`);
  await page.getByText(/Its metric loss is no finite number/).waitFor();

  // Runs are compared from the list: those selected, or those of a tag.
  await reach(page, second, "SUCCEEDED");
  await page.goto(`/jobs?tag=${tag}`);
  for (const name of names)
    await page.getByRole("checkbox", { name: `Select ${name}` }).check();
  await page
    .getByRole("region", { name: "Selected jobs" })
    .getByRole("link", { name: "Compare" })
    .click();
  const table = page.getByRole("table", { name: "accuracy by run" });
  for (const name of names)
    await table.getByRole("link", { name }).waitFor();
  await page.goto(`/jobs?tag=${tag}`);
  await page.getByRole("link", { name: "Compare runs" }).click();
  await table.getByRole("columnheader", { name: "lr", exact: true }).waitFor();
  await page.getByRole("combobox", { name: "Metric of the table" }).click();
  await page.getByRole("option", { name: "loss" }).click();
  const losses = page.getByRole("table", { name: "loss by run" });
  await losses.getByRole("row", { name: new RegExp(`${names[1]}.*300`) }).waitFor();
  await page.getByRole("img", { name: "loss" }).waitFor();
  await shoot(page, "compare");
  expect(await axe(page)).toEqual([]);

  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.locator("html[data-mantine-color-scheme=dark]").waitFor();
  await page.getByRole("img", { name: "loss" }).waitFor();
  await shoot(page, "compare-phone");
  expect(await axe(page)).toEqual([]);
  const width = () => page.evaluate(() => document.documentElement.scrollWidth);
  expect(await width()).toBeLessThanOrEqual(390);
  await page.goto(`/jobs/${first.id}?tab=metrics`);
  await own.getByRole("img", { name: "loss" }).waitFor();
  await shoot(page, "metrics-own-phone");
  expect(await width()).toBeLessThanOrEqual(390);
  await ask(page, "POST", `/jobs/${first.id}/stop`);
});
