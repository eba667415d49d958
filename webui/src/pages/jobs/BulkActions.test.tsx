import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { aJob } from "@/test/rows";
import { refusal, serve } from "@/test/server";
import { BulkActions } from "./BulkActions";

beforeEach(() => {
  document.cookie = "skep_csrf=x";
});

const admin = {
  username: "root",
  email: "",
  is_admin: true,
  virtual_clusters: [],
  admins: ["root"],
};
const jobs = [
  aJob({ id: "j1", name: "one", tags: ["old"] }),
  aJob({ id: "j2", name: "two" }),
  aJob({ id: "j3", name: "over", state: "SUCCEEDED" }),
];
const press = async (name: string) => userEvent.click(await screen.findByRole("button", { name }));

test("finding U30: several jobs are stopped at once, and those that are over are left alone", async () => {
  const requests = serve({
    "GET /me": admin,
    "POST /jobs/j1/stop": jobs[0],
    "POST /jobs/j2/stop": jobs[1],
  });
  const onClear = vi.fn();
  renderPage(<BulkActions jobs={jobs} onClear={onClear} />);
  expect(await screen.findByText("3 jobs selected")).toBeVisible();
  await waitFor(() => expect(screen.getByRole("button", { name: "Stop" })).toBeEnabled());
  await press("Stop");
  const dialog = await screen.findByRole("dialog", { name: "Stop 2 jobs?" });
  expect(within(dialog).getByText(/1 selected job is over already/)).toBeVisible();
  await userEvent.click(within(dialog).getByRole("button", { name: "Stop 2 jobs" }));
  await waitFor(() => expect(onClear).toHaveBeenCalled());
  const posts = requests.filter((each) => each.method === "POST").map((each) => each.url);
  expect(posts.map((url) => url.replace(/.*v1/, ""))).toEqual(["/jobs/j1/stop", "/jobs/j2/stop"]);
});

test("finding U30: tags are added to those that a job has", async () => {
  const requests = serve({
    "GET /me": admin,
    "PUT /jobs/j1/tags": jobs[0],
    "PUT /jobs/j2/tags": () => refusal(403, "forbidden", "It is not yours."),
    "PUT /jobs/j3/tags": jobs[2],
  });
  renderPage(<BulkActions jobs={jobs} onClear={vi.fn()} />);
  await press("Add tags");
  await userEvent.type(await screen.findByLabelText(/^Tags/), "new, best");
  await press("Add");
  expect(await screen.findByText("1 of 3 were refused. two: It is not yours.")).toBeVisible();
  const sent = requests.find((each) => each.url.endsWith("/jobs/j1/tags"));
  expect(await sent?.json()).toEqual({ tags: ["old", "new", "best"] });
});
