import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import type { Column } from "./columns";
import { DataTable } from "./DataTable";

interface Row {
  name: string;
  size: number | null;
}

const COLUMNS: Column<Row>[] = [
  {
    id: "name",
    header: "Name",
    width: "1fr",
    cell: (row) => <b>{row.name}</b>,
    sortValue: (row) => row.name,
  },
  {
    id: "size",
    header: "Size",
    width: "1fr",
    optional: true,
    cell: (row) => `${row.size} B`,
    exportValue: (row) => row.size,
  },
  { id: "more", header: "More", width: "1fr", cell: () => "…" },
];

afterEach(() => vi.restoreAllMocks());

/** Clicks the export of a table of these rows and returns the name and the text of the file. */
async function saved(rows: Row[], sortBy?: string): Promise<[string, string]> {
  const blobs: Blob[] = [];
  const names: string[] = [];
  vi.spyOn(URL, "createObjectURL").mockImplementation((blob) => {
    blobs.push(blob as Blob);
    return "blob:file";
  });
  vi.spyOn(URL, "revokeObjectURL").mockReturnValue();
  vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(function click(
    this: HTMLAnchorElement,
  ) {
    names.push(this.download);
  });
  renderPage(
    <DataTable
      label="Rows"
      columns={COLUMNS}
      rows={rows}
      rowId={(row) => row.name}
      file={{ rows: "files-of-home" }}
    />,
  );
  if (sortBy) await userEvent.click(await screen.findByRole("button", { name: sortBy }));
  await userEvent.click(await screen.findByRole("button", { name: "Export CSV: Rows" }));
  return [names.join(), (await blobs[0]?.text()) ?? ""];
}

test("a table is downloaded as it is sorted, with plain values of the columns that have one", async () => {
  const rows = [
    { name: "b", size: 2 },
    { name: "a", size: null },
  ];
  expect(await saved(rows, "Name")).toEqual(["files-of-home.csv", "Name,Size\r\na,\r\nb,2\r\n"]);
});

test("quotes and lines stay in their cell, and no cell is a formula", async () => {
  const rows = [
    { name: 'say "hi", twice\nor more', size: -1 },
    { name: "=HYPERLINK(1)", size: 1 },
    { name: " +1", size: 2 },
  ];
  const [, text] = await saved(rows);
  expect(text).toBe(
    'Name,Size\r\n"say ""hi"", twice\nor more",-1\r\n\'=HYPERLINK(1),1\r\n\' +1,2\r\n',
  );
});

test("a table that the API lists is downloaded from there, and one with a button of its page has none", async () => {
  const table = { label: "Rows", columns: COLUMNS, rows: [], rowId: (row: Row) => row.name };
  const { unmount } = renderPage(
    <DataTable {...table} file={{ list: "prefetches", filter: { image: "a b" } }} />,
  );
  expect(await screen.findByRole("link", { name: "Export CSV: Rows" })).toHaveAttribute(
    "href",
    "/api/v1/prefetches?format=csv&image=a+b",
  );
  unmount();
  renderPage(<DataTable {...table} file="page" />);
  await screen.findByRole("table");
  expect(screen.queryByText("Export CSV")).toBeNull();
});
