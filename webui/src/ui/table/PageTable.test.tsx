import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPages } from "@/test/render";
import type { Column } from "./columns";
import { PageTable } from "./PageTable";

interface Row {
  name: string;
  size: number | null;
  about: string;
}

const COLUMNS: Column<Row>[] = [
  {
    id: "name",
    header: "Name",
    width: "1fr",
    cell: (row) => row.name,
    sortValue: (row) => row.name,
  },
  {
    id: "size",
    header: "Size",
    width: "1fr",
    cell: (row) => row.size,
    sortValue: (row) => row.size,
  },
  { id: "about", header: "About", width: "1fr", cell: () => "…", exportValue: (row) => row.about },
];
const ROWS: Row[] = [
  { name: "node-10", size: 3, about: "old" },
  { name: "node-9", size: null, about: "New disks" },
  { name: "node-1", size: 20, about: "old" },
];

function draw(address = "/rows") {
  const page = () => (
    <PageTable
      filterLabel="Filter rows"
      label="Rows"
      columns={COLUMNS}
      rows={ROWS}
      rowId={(row) => row.name}
    />
  );
  return renderPages({ "/rows": page }, address);
}

const names = () =>
  screen
    .getAllByRole("row")
    .slice(1)
    .map((row) => within(row).getAllByRole("cell")[0]?.textContent);

test("filter and order of the address are those of the table", async () => {
  draw("/rows?q=node%20OLD&sort=-size");
  await screen.findByRole("table", { name: "Rows" });
  expect(names()).toEqual(["node-1", "node-10"]);
  expect(screen.getByRole("searchbox", { name: "Filter rows" })).toHaveValue("node OLD");
  expect(screen.getByText("2 of 3")).toBeVisible();
  expect(screen.getByRole("columnheader", { name: "Size" })).toHaveAttribute(
    "aria-sort",
    "descending",
  );
});

test("rows without a value come last in both orders, and no other order is taken", async () => {
  draw("/rows?sort=size");
  await screen.findByRole("table", { name: "Rows" });
  expect(names()).toEqual(["node-10", "node-1", "node-9"]);
  await userEvent.click(screen.getByRole("button", { name: "Size" }));
  await waitFor(() => expect(names()).toEqual(["node-1", "node-10", "node-9"]));
});

test("an order by a column that has none leaves the rows as they are", async () => {
  draw("/rows?sort=about");
  await screen.findByRole("table", { name: "Rows" });
  expect(names()).toEqual(["node-10", "node-9", "node-1"]);
});

test("a filter that nothing matches says so, and is cleared", async () => {
  draw();
  await userEvent.type(await screen.findByRole("searchbox", { name: "Filter rows" }), "disk9");
  await screen.findByText("Nothing matches the filter");
  await userEvent.click(screen.getByRole("button", { name: "Clear the filter" }));
  await screen.findByRole("table", { name: "Rows" });
  expect(names()).toHaveLength(3);
});
