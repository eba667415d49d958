import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { StorageFolder } from "./StorageFilesPage";

const at = "2026-11-22T20:00:00Z";
const file = { name: "model.pt", type: "file", size: 2048, modified_at: at };
const folder = { name: "runs", type: "folder", size: 0, modified_at: at };
const link = { name: "out", type: "link", size: 0, modified_at: at };
const listed = { writable: true, results: [file, link, folder], next: null };

test("a folder shows files to download, folders to enter and links as text", async () => {
  serve({ "GET /storages/team/files": listed });
  renderPage(<StorageFolder name="team" path="a b" />);
  const download = await screen.findByRole("link", { name: "model.pt" });
  expect(download.getAttribute("href")).toBe("/api/v1/storages/team/content?path=a%20b%2Fmodel.pt");
  expect(screen.getByRole("link", { name: "runs/" })).toBeTruthy();
  expect(screen.queryByRole("link", { name: "out" })).toBeNull();
});

const same = (source: string) => source;
const another = () => "10-1";
const unknown = () => undefined; // of a server of the version before

test.each([
  ["goes on where it ended", same, "4", "456789"],
  ["of another version of the file begins anew", another, "0", "0123456789"],
  ["of whatever version begins anew", unknown, "0", "0123456789"],
])("an upload that was cut %s", async (_, sourceOf, offset, sent) => {
  document.cookie = "skep_csrf=x";
  const requests = serve({
    "GET /storages/team/files": listed,
    "GET /storages/team/upload": (request: Request) => {
      const source = sourceOf(new URL(request.url).searchParams.get("source") ?? "");
      return { offset: 4, ...(source && { source }) };
    },
    "PUT /storages/team/content": { offset: 10 },
  });
  const { container } = renderPage(<StorageFolder name="team" path="" />);
  await screen.findByRole("button", { name: "Upload files" });
  const input = container.ownerDocument.querySelector<HTMLInputElement>("input[type=file]");
  const file = new File(["0123456789"], "f.txt", { lastModified: 1_764_000_000_000 });
  await userEvent.upload(input as HTMLInputElement, file);
  await expect.poll(() => requests.find(({ method }) => method === "PUT")).toBeTruthy();
  const put = requests.find(({ method }) => method === "PUT");
  const query = Object.fromEntries(new URL(put?.url ?? "").searchParams);
  expect(query).toEqual({ path: "f.txt", offset, last: "true", source: "10-1764000000000" });
  expect(await put?.text()).toBe(sent);
});

test("who may only read is offered no change", async () => {
  serve({ "GET /storages/team/files": { ...listed, writable: false } });
  renderPage(<StorageFolder name="team" path="" />);
  await screen.findByRole("link", { name: "model.pt" });
  expect(screen.queryByRole("button", { name: /Upload|Remove/ })).toBeNull();
});
