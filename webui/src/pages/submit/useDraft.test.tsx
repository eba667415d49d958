import { screen } from "@testing-library/react";
import { Link, useRouter } from "@tanstack/react-router";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
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
