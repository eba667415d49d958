import { Notifications } from "@mantine/notifications";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
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
const done = (id: string) => ({ id, done: true, code: "", message: "" });
const press = async (name: string) => userEvent.click(await screen.findByRole("button", { name }));

test("finding U30: several jobs are stopped at once, and those that are over are left alone", async () => {
  const requests = serve({
    "GET /me": admin,
    "POST /jobs/bulk/stop": { results: [done("j1"), done("j2")] },
  });
  const onChoose = vi.fn();
  renderPage(<BulkActions jobs={jobs} onChoose={onChoose} />);
  expect(await screen.findByText("3 jobs selected")).toBeVisible();
  await waitFor(() => expect(screen.getByRole("button", { name: "Stop" })).toBeEnabled());
  await press("Stop");
  const dialog = await screen.findByRole("dialog", { name: "Stop 2 jobs?" });
  expect(within(dialog).getByText(/1 selected job is over already/)).toBeVisible();
  await userEvent.click(within(dialog).getByRole("button", { name: "Stop 2 jobs" }));
  await waitFor(() => expect(onChoose).toHaveBeenCalledWith(new Set()));
  const sent = requests.find((each) => each.method === "POST");
  expect(await sent?.json()).toEqual({ jobs: ["j1", "j2"] });
});

test("finding U30: tags are added and removed, and a refusal is told", async () => {
  const refused = { id: "j2", done: false, code: "forbidden", message: "It is not yours." };
  const requests = serve({
    "GET /me": admin,
    "POST /jobs/bulk/tags": { results: [done("j1"), refused, done("j3")] },
  });
  renderPage(<BulkActions jobs={jobs} onChoose={vi.fn()} />);
  await press("Tags");
  await userEvent.type(await screen.findByLabelText(/^Tags to add/), "new, best");
  await userEvent.click(screen.getByRole("combobox", { name: "Tags to remove" }));
  await userEvent.click(await screen.findByRole("option", { name: "old" }));
  await press("Change");
  expect(await screen.findByText("1 of 3 were refused. two: It is not yours.")).toBeVisible();
  const sent = requests.find((each) => each.url.endsWith("/jobs/bulk/tags"));
  expect(await sent?.json()).toEqual({
    jobs: ["j1", "j2", "j3"],
    add: ["new", "best"],
    remove: ["old"],
  });
});

test("of those that were refused each is named with its reason, and they alone stay chosen", async () => {
  let taken = 0;
  const full = () => refusal(429, "too_many_jobs", "You have 9 jobs already.");
  const requests = serve({
    "GET /me": admin,
    "POST /jobs/j1/clone": () => (taken++ ? full() : { id: "c1" }),
    "POST /jobs/j2/clone": full,
    "POST /jobs/j3/clone": () => refusal(403, "forbidden", "It is not yours."),
  });
  function Page() {
    const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set(["j1", "j2", "j3"]));
    return (
      <>
        <Notifications />
        <BulkActions jobs={jobs.filter(({ id }) => chosen.has(id))} onChoose={setChosen} />
      </>
    );
  }
  renderPage(<Page />);
  await press("Clone");
  await press("Clone 3 jobs");
  const said = "2 of 3 were refused. two: You have 9 jobs already. over: It is not yours.";
  expect(await screen.findByText(said)).toBeVisible();
  expect(await screen.findByText("2 jobs selected")).toBeVisible();
  await press("Clone");
  await press("Clone 2 jobs");
  await waitFor(() => expect(requests.filter(({ method }) => method === "POST")).toHaveLength(5));
  expect(taken).toBe(1);
});
