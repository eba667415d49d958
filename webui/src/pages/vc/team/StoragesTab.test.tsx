import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { Storage } from "@/api/types";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { StoragesTab } from "./StoragesTab";

const export_: Storage = {
  name: "team",
  description: "",
  type: "nfs",
  data: {},
  mount_options: [],
  has_keys: false,
  read_only: false,
  per_user: false,
  home: false,
  default: false,
  managed_by: "",
  may_change: false,
  grants: [{ virtual_cluster: "vision", read_only: true }],
  group_grants: [],
  created_at: "2026-11-22T20:00:00Z",
};
const bucket: Storage = {
  ...export_,
  name: "vision-sets",
  type: "s3",
  data: { endpoint: "https://s3.example.org", bucket: "sets" },
  has_keys: true,
  managed_by: "vision",
  may_change: true,
  grants: [{ virtual_cluster: "vision", read_only: false }],
};
const elsewhere: Storage = { ...export_, name: "other", grants: [] };
const all = { results: [export_, bucket, elsewhere], next: null };

async function fill(field: HTMLElement, text: string) {
  await userEvent.click(field);
  await userEvent.paste(text);
}

test("a VC admin adds a bucket of the team and changes it, and no storage of admins", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({ "GET /storages": all, "POST /storages": bucket });
  renderPage(<StoragesTab name="vision" manages />);
  expect(await screen.findByText(/managed by vision/)).toBeVisible();
  expect(screen.queryByText("other")).toBeNull();
  expect(screen.queryByRole("button", { name: "Edit team" })).toBeNull();
  expect(screen.getByRole("button", { name: "Edit vision-sets" })).toBeVisible();

  await userEvent.click(screen.getByRole("button", { name: "Add a bucket" }));
  const form = within(screen.getByRole("dialog", { name: "Add a bucket" }));
  expect(form.queryByLabelText("Type")).toBeNull();
  expect(form.queryByLabelText("Who only reads")).toBeNull();
  await fill(form.getByLabelText("Name"), "dogs");
  await fill(form.getByLabelText("Endpoint"), "https://s3.example.org");
  await fill(form.getByLabelText("Bucket"), "dogs");
  await fill(form.getByLabelText("Access key"), "AKIA");
  await fill(form.getByLabelText("Secret key"), "secret");
  await userEvent.click(form.getByRole("button", { name: "Add" }));
  await expect.poll(() => requests.find(({ method }) => method === "POST")).toBeTruthy();
  const sent = await requests.find(({ method }) => method === "POST")?.json();
  expect(sent).toMatchObject({ name: "vision-dogs", type: "s3", managed_by: "vision" });
  expect(requests.some(({ method }) => method === "PUT")).toBe(false);
});

test("a member sees what jobs can mount, and is offered no change", async () => {
  serve({ "GET /storages": { results: [export_, { ...bucket, may_change: false }], next: null } });
  renderPage(<StoragesTab name="vision" manages={false} />);
  expect(await screen.findByText("vision-sets")).toBeVisible();
  expect(screen.queryByRole("button", { name: /Edit|Remove|Add/ })).toBeNull();
});
