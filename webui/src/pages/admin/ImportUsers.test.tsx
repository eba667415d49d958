import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { refusal, serve } from "@/test/server";
import { ImportUsersDialog } from "./ImportUsers";

const FILE = "username\nmei\nomar\n";
const row = (username: string, is_new: boolean, reset_url: string | null = null) => ({
  username,
  is_new,
  reset_url,
});

async function choose(csv: string) {
  document.cookie = "skep_csrf=x";
  renderPage(<ImportUsersDialog open onClose={() => undefined} />);
  await userEvent.click(await screen.findByRole("textbox", { name: "CSV" }));
  await userEvent.paste(csv);
}

test("a file is checked at once, then imported, and the links are shown", async () => {
  const answer = { users: [row("mei", true, "https://skep/reset?user=mei"), row("omar", false)] };
  const requests = serve({ "POST /user-imports": answer });
  await choose(FILE);
  await screen.findByText("1 user will be created, 1 known.");
  await userEvent.click(screen.getByRole("button", { name: "Import" }));
  expect(await screen.findByLabelText("Links")).toHaveTextContent(
    "mei,https://skep/reset?user=mei",
  );
  const sent = await Promise.all(requests.map((request) => request.json()));
  expect(sent).toEqual([
    { csv: FILE, dry_run: true },
    { csv: FILE, dry_run: false },
  ]);
});

test("a bad line is named, and nothing can be imported", async () => {
  serve({
    "POST /user-imports": refusal(400, "import_invalid", "Line 2 cannot be imported.", {
      problems: [{ line: 2, column: "groups", code: "not_found", message: "There is no group x." }],
    }),
  });
  await choose("username,groups\nmei,x\n");
  await screen.findByText("Line 2, groups: There is no group x.");
  expect(screen.getByRole("button", { name: "Import" })).toBeDisabled();
});
