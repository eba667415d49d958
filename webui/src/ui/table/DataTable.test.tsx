import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
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
  { id: "more", header: "More", width: "1fr", cell: () => "…" },
];
const ROWS: Row[] = [
  { name: "node-10", size: 3 },
  { name: "node-9", size: null },
  { name: "node-1", size: 20 },
];

const names = () =>
  screen
    .getAllByRole("row")
    .slice(1)
    .map((row) => within(row).getAllByRole("cell")[0]?.textContent);

async function draw(props: Partial<Parameters<typeof DataTable<Row>>[0]> = {}) {
  renderPage(
    <DataTable
      label="Rows"
      columns={COLUMNS}
      rows={ROWS}
      rowId={(row) => row.name}
      file="page"
      {...props}
    />,
  );
  await screen.findByRole("table", { name: "Rows" });
}

test("numbers in names sort as numbers, and a second click turns the order", async () => {
  await draw();
  await userEvent.click(screen.getByRole("button", { name: "Name" }));
  expect(names()).toEqual(["node-1", "node-9", "node-10"]);
  expect(screen.getByRole("columnheader", { name: "Name" })).toHaveAttribute(
    "aria-sort",
    "ascending",
  );
  await userEvent.click(screen.getByRole("button", { name: "Name" }));
  expect(names()).toEqual(["node-10", "node-9", "node-1"]);
});

test("rows without a value come last in both orders", async () => {
  await draw();
  await userEvent.click(screen.getByRole("button", { name: "Size" }));
  expect(names().at(-1)).toBe("node-9");
  await userEvent.click(screen.getByRole("button", { name: "Size" }));
  expect(names().at(-1)).toBe("node-9");
});

test("a column without an order is no button", async () => {
  await draw();
  expect(screen.queryByRole("button", { name: "More" })).toBeNull();
});

test("an order of the server is asked for, not made here", async () => {
  const onSortingChange = vi.fn();
  await draw({ sorting: [{ id: "name", desc: false }], onSortingChange });
  await userEvent.click(screen.getByRole("button", { name: "Name" }));
  expect(onSortingChange).toHaveBeenCalledWith([{ id: "name", desc: true }]);
  expect(names()).toEqual(["node-10", "node-9", "node-1"]);
});
