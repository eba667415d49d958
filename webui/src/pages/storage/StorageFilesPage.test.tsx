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

test("an upload that was cut goes on where it ended", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({
    "GET /storages/team/files": listed,
    "GET /storages/team/upload": { offset: 4 },
    "PUT /storages/team/content": { offset: 10 },
  });
  const { container } = renderPage(<StorageFolder name="team" path="" />);
  await screen.findByRole("button", { name: "Upload files" });
  const input = container.ownerDocument.querySelector<HTMLInputElement>("input[type=file]");
  await userEvent.upload(input as HTMLInputElement, new File(["0123456789"], "f.txt"));
  await expect.poll(() => requests.find(({ method }) => method === "PUT")).toBeTruthy();
  const put = requests.find(({ method }) => method === "PUT");
  const query = new URL(put?.url ?? "").searchParams;
  expect([query.get("path"), query.get("offset"), query.get("last")]).toEqual([
    "f.txt",
    "4",
    "true",
  ]);
  expect(await put?.text()).toBe("456789");
});

test("who may only read is offered no change", async () => {
  serve({ "GET /storages/team/files": { ...listed, writable: false } });
  renderPage(<StorageFolder name="team" path="" />);
  await screen.findByRole("link", { name: "model.pt" });
  expect(screen.queryByRole("button", { name: /Upload|Remove/ })).toBeNull();
});
