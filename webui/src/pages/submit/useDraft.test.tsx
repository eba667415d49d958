import { useQuery } from "@tanstack/react-query";
import { screen } from "@testing-library/react";
import { Link, useRouter } from "@tanstack/react-router";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { me } from "@/api/session";
import { forgetDraftInAllTabs, watchLogout } from "@/features/job-file/storedDraft";
import { renderPages } from "@/test/render";
import { aUser } from "@/test/rows";
import { serve } from "@/test/server";
import { useDraft } from "./useDraft";

const EDITED = "name: edited\n";

function Copy() {
  const draft = useDraft({ from: "j1" });
  return (
    <>
      <pre>{draft.text}</pre>
      <button onClick={() => draft.write(EDITED)}>Edit</button>
      <Link to="/jobs">Away</Link>
    </>
  );
}

function Jobs() {
  const { history } = useRouter();
  return (
    <>
      <button onClick={() => history.back()}>Back</button>
      <Link to="/jobs/new">Copy again</Link>
    </>
  );
}

const press = async (role: string, name: string) =>
  userEvent.click(await screen.findByRole(role, { name }));

test("an edited copy of a job is there on the way back to it, and a new copy begins anew", async () => {
  serve({ "GET /me": aUser(), "GET /jobs/j1": { id: "j1", spec_text: "name: train\n" } });
  renderPages({ "/jobs/new": Copy, "/jobs": Jobs }, "/jobs/new");
  expect(await screen.findByText(/^name: train/)).toBeVisible();
  await press("button", "Edit");
  await press("link", "Away");
  await press("button", "Back");
  expect(await screen.findByText("name: edited")).toBeVisible();
  await press("link", "Away");
  await press("link", "Copy again");
  expect(await screen.findByText(/^name: train/)).toBeVisible();
});

function NewJob() {
  const draft = useDraft({});
  const { data: user } = useQuery(me);
  return (
    <>
      <p>{user?.username}</p>
      <pre>{draft.text}</pre>
      <button onClick={() => draft.write("name: secret-plan\n")}>Write</button>
    </>
  );
}

/** Draws the page as after a reload, for this user. */
async function asUser(username: string, act?: () => Promise<void>) {
  serve({ "GET /me": aUser({ username }) });
  const { unmount } = renderPages({ "/jobs/new": NewJob }, "/jobs/new");
  await screen.findByText(username);
  await act?.();
  const text = document.querySelector("pre")?.textContent;
  unmount();
  return text;
}

test("a draft is there after a reload, and never for another user of the browser", async () => {
  await asUser("mei", async () => {
    await press("button", "Write");
    await screen.findByText("name: secret-plan");
  });
  expect(await asUser("mei")).toBe("name: secret-plan\n");
  expect(await asUser("ann")).not.toContain("secret-plan");
  expect(JSON.stringify({ ...sessionStorage })).not.toContain("secret-plan");
});

test("a draft goes when its user logs out, in this tab and in the others", async () => {
  watchLogout();
  const write = () => press("button", "Write");
  await asUser("mei", write);
  forgetDraftInAllTabs();
  expect(await asUser("mei")).not.toContain("secret-plan");
  await asUser("mei", write);
  dispatchEvent(new StorageEvent("storage", { key: "skep-logged-out-at" }));
  expect(await asUser("mei")).not.toContain("secret-plan");
});
