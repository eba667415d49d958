import { ask, expect, freshName, logIn, shoot, test } from "../visitor.mjs";

const PASSWORD = "many-busy-bees";

/** What an administrator announces by REST stands above every page of every other user, and goes when
 * it is deleted. */
test("an announcement is shown to other users", async ({ page, browse }) => {
  await logIn(page);
  const user = freshName("zoe");
  await ask(page, "POST", "/users", { username: user, password: PASSWORD });
  const message = `The cluster is down on Sunday: ${user}.`;
  const made = await ask(page, "POST", "/announcements", {
    message,
    severity: "warning",
  });

  await browse(async (other) => {
    await logIn(other, { user, password: PASSWORD });
    const list = other.getByRole("list", { name: "Announcements" });
    for (const path of ["/jobs", "/jobs/new", "/cluster", "/profile"]) {
      await other.goto(path);
      await list.getByText(message).waitFor();
    }
    await shoot(other, "announcement");
    await other.setViewportSize({ width: 390, height: 844 });
    await expect(list.getByText(message)).toBeInViewport();

    await ask(page, "DELETE", `/announcements/${made.id}`);
    await other.goto("/jobs");
    await other.getByRole("heading", { name: "Jobs", exact: true }).waitFor();
    await expect(other.getByText(message)).toHaveCount(0);
  });
});
